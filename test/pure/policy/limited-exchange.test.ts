import { describe, expect, it } from "vitest";
import { SidecarError } from "../../../src/errors.ts";
import { errorBody } from "../../../src/http/error-response.ts";
import { LimitedExchange } from "../../../src/policy/result-limit/limited-exchange.ts";
import { RecordedExchange } from "../../unit/support/recorded-exchange.ts";

const MAX_BYTES = 4096;
const KEEP_ALIVE_MS = 1000;
/** The bytes around a message: `id: r999999-999999-0a1b2c3d-Nw`, `event: message`. The first event has `retry` instead of a message. */
const FRAME_BYTES = "id: r999999-999999-0a1b2c3d-Nw\nevent: message\ndata: \n\n".length;
const FIRST_EVENT_BYTES = "id: r999999-0-0a1b2c3d-Nw\nretry: 1000\ndata: \n\n".length;
const COMMENT_BYTES = ": keep-alive\n\n".length;

class Bench {
  readonly client: RecordedExchange;
  readonly exchange: LimitedExchange;
  nowMs = 0;
  truncated = 0;

  constructor(sharedBy = 1, readsStreams = true) {
    this.client = new RecordedExchange("2", 0, readsStreams);
    this.client.sharedBy = sharedBy;
    const onTruncated = (): void => void this.truncated++;
    this.exchange = new LimitedExchange(this.client, {
      maxBytes: MAX_BYTES,
      keepAliveMs: KEEP_ALIVE_MS,
      nowMs: () => this.nowMs,
      onTruncated,
    });
  }

  get responseBytes(): number {
    return Buffer.byteLength(this.client.response ?? "");
  }

  /** The bytes of an event stream with all messages, and a comment for each interval that has begun. */
  get streamBytes(): number {
    const events = [...this.client.emitted, this.client.response ?? ""];
    const eventBytes = events.reduce((sum, event) => sum + FRAME_BYTES + Buffer.byteLength(event), 0);
    return FIRST_EVENT_BYTES + eventBytes + COMMENT_BYTES * (1 + Math.floor(this.nowMs / KEEP_ALIVE_MS));
  }
}

function answer(length: number): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 2, result: { content: [{ type: "text", text: "a".repeat(length) }] } });
}

function notification(length: number): string {
  return JSON.stringify({
    jsonrpc: "2.0",
    method: "notifications/progress",
    params: { progressToken: 1, progress: 1, message: "é".repeat(length / 2) },
  });
}

describe("LimitedExchange", () => {
  it("a response within the limit is unchanged", () => {
    const { exchange, client } = new Bench();
    const text = answer(MAX_BYTES - answer(0).length);
    exchange.respond(text);
    expect(client.response).toBe(text);
  });

  it("a response above the limit is truncated to the limit, and counted", () => {
    const bench = new Bench();
    bench.exchange.respond(answer(MAX_BYTES));
    expect(bench.responseBytes).toBeGreaterThan(MAX_BYTES * 0.97);
    expect(bench.responseBytes).toBeLessThanOrEqual(MAX_BYTES);
    expect(bench.truncated).toBe(1);
  });

  it("the limit includes messages that precede the response", () => {
    const bench = new Bench();
    expect(bench.exchange.emit(notification(500))).toBe(true);
    expect(bench.exchange.emit(notification(500))).toBe(true);
    bench.exchange.respond(answer(MAX_BYTES));
    expect(bench.streamBytes).toBeLessThanOrEqual(MAX_BYTES);
    expect(bench.streamBytes).toBeGreaterThan(MAX_BYTES * 0.9);
  });

  it("the limit includes comments on a stream that begins after silence", () => {
    const bench = new Bench();
    bench.exchange.keepAlive();
    bench.nowMs = 60_500;
    bench.exchange.respond(answer(MAX_BYTES));
    expect(bench.client.keepAliveCount).toBe(1);
    expect(bench.streamBytes).toBeLessThanOrEqual(MAX_BYTES);
    expect(bench.streamBytes).toBeGreaterThan(MAX_BYTES * 0.9);
  });

  it("a message that would leave less than half for the response is dropped", () => {
    const { exchange, client } = new Bench();
    const sent = Array.from({ length: 20 }, () => exchange.emit(notification(300)));
    expect(sent.lastIndexOf(true)).toBe(client.emitted.length - 1);
    const bytes = client.emitted.reduce((sum, event) => sum + FRAME_BYTES + Buffer.byteLength(event), 0);
    expect(bytes).toBeGreaterThan(MAX_BYTES / 3);
    expect(bytes).toBeLessThan(MAX_BYTES / 2);
  });

  it("a server request may use more than half, since the response may depend on it", () => {
    const { exchange, client } = new Bench();
    const question = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "sampling/createMessage", params: { text: "q".repeat(2500) } });
    expect(exchange.emit(notification(2500))).toBe(false);
    expect(exchange.emit(question)).toBe(true);
    expect(exchange.emit(question)).toBe(false);
    expect(client.emitted).toEqual([question]);
  });

  it("messages that the client does not accept do not count", () => {
    const { exchange, client } = new Bench(1, false);
    expect(exchange.emit(notification(1000))).toBe(false);
    exchange.respond(answer(MAX_BYTES - answer(0).length));
    expect(client.response?.length).toBe(MAX_BYTES);
  });

  it("a response in a batch gets its share of the limit", () => {
    const benches = [1, 2, 3].map(() => new Bench(3));
    for (const { exchange } of benches) exchange.respond(answer(MAX_BYTES));
    const bytes = benches.reduce((sum, { responseBytes }) => sum + responseBytes + FRAME_BYTES, 0);
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES - FIRST_EVENT_BYTES);
    expect(bytes).toBeGreaterThan(MAX_BYTES * 0.8);
  });

  it.each([10, 20, 30])("the errors of a batch of %i stay within the limit, each with a message", (size) => {
    const benches = Array.from({ length: size }, () => new Bench(size));
    for (const { exchange } of benches)
      exchange.fail(new SidecarError("REQUEST_TIMEOUT", "The server is slow. ".repeat(20), { sent: true }));
    const errors = benches.flatMap(({ client }) => client.error ?? []);
    const bytes = errors.reduce((sum, error) => sum + Buffer.byteLength(errorBody(error, "2")) + FRAME_BYTES, 0);
    expect(bytes).toBeLessThanOrEqual(MAX_BYTES - FIRST_EVENT_BYTES - COMMENT_BYTES);
    expect(new Set(errors.map(({ message }) => message))).toHaveLength(1);
    expect(errors[size - 1]?.message).toMatch(/^The server is slow\.|^REQUEST_TIMEOUT$/);
  });

  it("each response on an endless stream is limited, and messages before it are not", () => {
    const bench = new Bench(0);
    for (let count = 0; count < 20; count++) expect(bench.exchange.emit(notification(1000))).toBe(true);
    bench.exchange.respond(answer(MAX_BYTES));
    expect(bench.responseBytes).toBeLessThanOrEqual(MAX_BYTES);
    expect(bench.responseBytes).toBeGreaterThan(MAX_BYTES * 0.9);
  });

  it("an error keeps the last lines of stderr that fit, and truncates its message last", () => {
    const stderrTail = Array.from({ length: 20 }, (_, index) => `line ${index} ${"e".repeat(500)}`);
    const bench = new Bench();
    bench.exchange.fail(new SidecarError("UPSTREAM_EXITED", "The server has ended.", { sent: true, stderrTail }));
    const { error } = bench.client;
    expect(error?.message).toBe("The server has ended.");
    expect(error?.details.sent).toBe(true);
    expect(error?.details.stderrTail).toEqual(stderrTail.slice(-(error?.details.stderrTail?.length ?? 0)));
    expect(error?.details.stderrTail?.length).toBe(7);

    const other = new Bench();
    const message = "m\u0000😀".repeat(5000);
    other.exchange.fail(new SidecarError("UPSTREAM_EXITED", message, { sent: true, stderrTail }));
    const cut = other.client.error;
    expect(cut?.details).toEqual({ sent: true, retrySafe: false });
    expect(message.startsWith(cut?.message ?? "-")).toBe(true);
    for (const each of [error, cut]) {
      const bytes = each === undefined ? 0 : Buffer.byteLength(errorBody(each, "2"));
      expect(bytes).toBeLessThanOrEqual(MAX_BYTES);
      expect(bytes).toBeGreaterThan(MAX_BYTES * 0.8);
    }
  });

  it("a short error is unchanged", () => {
    const { exchange, client } = new Bench();
    const error = new SidecarError("OVERLOADED", "too much", { stderrTail: ["a"] });
    exchange.fail(error);
    expect(client.error).toBe(error);
  });

  it("a disconnect is reported, and the properties of the request are unchanged", () => {
    const { exchange, client } = new Bench();
    let gone = 0;
    exchange.onDisconnect(() => void gone++);
    client.disconnect();
    expect(gone).toBe(1);
    expect(exchange).toMatchObject({ idText: "2", acceptedAtMs: 0, isListening: true, sharedBy: 1 });
    exchange.dismiss();
    expect(client.isFinished).toBe(true);
  });
});
