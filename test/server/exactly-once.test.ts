import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SidecarError } from "../../src/errors.ts";
import type { Exchange } from "../../src/sessions/exchange.ts";
import { parseEventId } from "../../src/sessions/streams/event-id.ts";
import { EventStream } from "../../src/sessions/streams/event-stream.ts";
import type { SessionStreams } from "../../src/sessions/streams/session-streams.ts";
import { requestOfClient, PrivateLaneBench } from "./support/lane-bench.ts";
import { RecordedSink } from "./support/recorded-sink.ts";
import { useFakeClock } from "../support/fake-clock.ts";

useFakeClock();

/** A stream as its client sees it: the messages it has read, and the id for resumption. */
interface Connection {
  readonly stream: EventStream;
  readonly sink: RecordedSink;
  /** The id of the last event that was read, or of the position before the first. */
  readonly lastEventId: () => string;
}

/** A client that reads all its streams, resumes the broken ones, and records every message. */
class Client {
  readonly bench = new PrivateLaneBench();
  readonly #sinks: RecordedSink[] = [];
  readonly #open: Connection[] = [];
  readonly #broken: Connection[] = [];
  #lastId = 0;

  constructor() {
    this.bench.start();
  }

  get #streams(): SessionStreams {
    return this.bench.session.streams;
  }

  /** All messages, from any stream. */
  get read(): string[] {
    return this.#sinks.flatMap(({ texts }) => texts);
  }

  get(patience: number): void {
    this.#connect(this.#streams.openStandalone(), patience, 0);
  }

  /** A request whose response is a stream from the first message on. */
  post(patience: number): void {
    const request = requestOfClient({ id: ++this.#lastId, method: "tools/call" });
    const open = (): EventStream => this.#connect(this.#streams.openForRequest(), patience, 0).stream;
    this.bench.lane.request(this.bench.session, new StreamedExchange(String(this.#lastId), open), request);
  }

  break(index: number): void {
    const [broken] = this.#open.splice(index % Math.max(1, this.#open.length), 1);
    if (broken === undefined) return;
    broken.stream.detach(broken.sink);
    this.#broken.push(broken);
  }

  comeBack(index: number, patience: number): void {
    const [former] = this.#broken.splice(index % Math.max(1, this.#broken.length), 1);
    const position = former === undefined ? undefined : parseEventId(former.lastEventId());
    if (position === undefined) return;
    const found = this.#streams.find(position);
    if (found === "unknown" || found === "elsewhere") throw new Error(`the stream of ${former?.lastEventId()} is not found again`);
    if (found instanceof EventStream) this.#connect(found, patience, found.name.streamId === position.streamId ? position.sequence : 0);
  }

  /** Resumes all streams until no more messages arrive. */
  readAll(): void {
    while (this.#open.length > 0) this.break(0);
    while (this.#broken.length > 0) this.comeBack(0, Number.POSITIVE_INFINITY);
    this.get(Number.POSITIVE_INFINITY);
  }

  #connect(stream: EventStream, patience: number, sequence: number): Connection {
    const sink = new RecordedSink(patience);
    this.#sinks.push(sink);
    const connection = { stream, sink, lastEventId: () => sink.ids.at(-1) ?? stream.eventId(sequence) };
    stream.attach(sink, sequence);
    if (stream.isStandalone) this.#streams.deliverWaiting();
    this.#open.push(connection);
    return connection;
  }
}

/** Behaves like the exchange of a POST for a client that can resume its response. */
class StreamedExchange implements Exchange {
  readonly idText: string;
  readonly acceptedAtMs = 0;
  readonly sharedBy = 1;
  readonly #open: () => EventStream;
  #stream: EventStream | undefined;

  constructor(idText: string, open: () => EventStream) {
    this.idText = idText;
    this.#open = open;
  }

  get isListening(): boolean {
    return this.#stream?.isAttached ?? true;
  }

  emit(body: string): boolean {
    this.#stream ??= this.#open();
    this.#stream.emit(body);
    return true;
  }

  keepAlive(): void {
    this.#stream ??= this.#open();
  }

  respond(body: string): void {
    this.#stream ??= this.#open();
    this.#stream.finish(body);
  }

  fail(error: SidecarError): void {
    throw error;
  }

  dismiss(): void {
    throw new Error("nobody has cancelled");
  }

  onDisconnect(): void {
    // The client of a lost connection may come back.
  }
}

const patience = fc.oneof(fc.constant(Number.POSITIVE_INFINITY), fc.nat({ max: 3 }));
const step = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ kind: "say" as const }) },
  { weight: 2, arbitrary: fc.constant({ kind: "reply" as const }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("post" as const), patience }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("get" as const), patience }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("break" as const), index: fc.nat({ max: 9 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("comeBack" as const), index: fc.nat({ max: 9 }), patience }) },
);

describe("a client that resumes all its streams", () => {
  it("the client gets every message and answer exactly once, whatever connection breaks", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const client = new Client();
        const { bench } = client;
        const expected: string[] = [];
        const asked: unknown[] = [];
        let answered = 0;
        const reply = (): void => {
          const id = asked.shift();
          if (id === undefined) return;
          bench.say({ id, result: {} });
          expected.push(JSON.stringify({ jsonrpc: "2.0", id: ++answered, result: {} }));
        };
        for (const [number, each] of steps.entries()) {
          if (each.kind === "say") {
            const message = { method: "notifications/message", params: { level: "info", data: number } };
            bench.say(message);
            expected.push(JSON.stringify({ jsonrpc: "2.0", ...message }));
          } else if (each.kind === "reply") reply();
          else if (each.kind === "post") client.post(each.patience);
          else if (each.kind === "get") client.get(each.patience);
          else if (each.kind === "break") client.break(each.index);
          else client.comeBack(each.index, each.patience);
          asked.push(...bench.heard().map(({ id }) => id));
        }
        while (asked.length > 0) reply();
        client.readAll();
        expect(client.read.toSorted()).toEqual(expected.toSorted());
        bench.lane.endCaller(bench.session);
        bench.session.streams.close();
        expect(bench.eventLog.size).toBe(0);
      }),
      { numRuns: 500 },
    );
  });
});
