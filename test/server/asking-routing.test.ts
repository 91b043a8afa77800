import { describe, expect, it, vi } from "vitest";
import { AskingCall, ParkedCalls } from "../../src/server/asking-calls.ts";
import type { Context } from "../../src/context.ts";
import { AskKind, type AskKinds } from "../../src/mcp/capabilities.ts";
import { Routing } from "../../src/server/routing.ts";
import { MemoryBudget } from "../../src/memory.ts";
import type { StatelessRequest } from "../../src/server/request-check.ts";
import type { JsonObject } from "../../src/mcp/message.ts";
import { UNGUARDED, contextOf } from "../support/context.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { LaneBench, requestOfClient } from "./support/lane-bench.ts";
import { ACCOUNT, AMPLE_MEMORY } from "./support/memory.ts";
import { RecordedReply } from "./support/recorded-reply.ts";
import { Caller } from "../../src/session/session.ts";

useFakeClock();

const SETTLED_MS = 50;
const PARK_TIMEOUT_MS = 60_000;
const QUESTION = { id: "q", method: "elicitation/create", params: { message: "?", _meta: { progressToken: "mine" } } };

function context(maxParkedCalls = 8): Context {
  return contextOf({ parkTimeoutMs: PARK_TIMEOUT_MS, maxPrivateServers: 16, maxParkedCalls }, { defects: UNGUARDED });
}

function parkedCalls(maxParked?: number): ParkedCalls {
  return new ParkedCalls(context(maxParked), "0a1b2c3d");
}

function start(
  account = AMPLE_MEMORY.account("client"),
  parked = parkedCalls(),
): {
  readonly bench: LaneBench;
  readonly parked: ParkedCalls;
  readonly call: (declared?: AskKinds) => RecordedReply;
  readonly answer: (answers: Readonly<Record<string, object>>) => RecordedReply;
  readonly serverSays: (message: JsonObject) => JsonObject[];
} {
  const bench = new LaneBench((calls, tools) => new Routing(calls, tools, "legacy", undefined, () => undefined), {
    parkTimeoutMs: PARK_TIMEOUT_MS,
    pingIntervalMs: 5000,
    hungTimeouts: 1,
  });
  const { asking } = bench.lane.routing;
  if (asking === undefined) throw new Error("the lane has another routing");
  bench.start({});
  const caller = new StatelessCaller(ACCOUNT);
  const request = requestOfClient({ id: 1, method: "tools/call", params: { name: "t" } });
  const client = new Caller(account);
  const send = (declared: AskKinds, idText: string): StatelessRequest & { readonly reply: RecordedReply } => {
    const reply = new RecordedReply(bench.context, idText, Date.now());
    return { request, envelope: { declared, logLevel: undefined, reserved: [] }, headers: {}, reply, client, owner: undefined };
  };
  let asked: AskingCall | undefined;
  const call = (declared: AskKinds = AskKind.form): RecordedReply => {
    const sent = send(declared, "1");
    asked = sent.reply.askable = new AskingCall(asking.questions, parked, sent);
    bench.lane.request(caller, sent.reply, request);
    return sent.reply;
  };
  const answer = (answers: Readonly<Record<string, object>>): RecordedReply => {
    if (asked === undefined) throw new Error("no call");
    const sent = send(AskKind.form, "2");
    parked.remove(asked);
    asked.resume(sent, new Map(Object.entries(answers).map(([key, value]) => [key, JSON.stringify(value)])));
    vi.advanceTimersByTime(SETTLED_MS);
    return sent.reply;
  };
  bench.heard();
  const serverSays = (message: JsonObject): JsonObject[] => {
    bench.say(message);
    vi.advanceTimersByTime(SETTLED_MS);
    return bench.heard();
  };
  return { bench, parked, call, answer, serverSays };
}

describe("a question to a client without a session", () => {
  it("its server gets progress every 20 s and no ping while the call waits, is not restarted, and then gets the answer of an absent client", () => {
    const { bench, parked, call, serverSays } = start();
    const raw = call();
    bench.heard();
    expect(serverSays(QUESTION)).toEqual([]);
    expect(raw.outcome).toMatchObject({ resultType: "input_required" });
    const progress = (count: number): object => ({ method: "notifications/progress", params: { progressToken: "mine", progress: count } });
    vi.advanceTimersByTime(45_000);
    expect([...bench.heard(), ...bench.upstream.restartReasons]).toEqual([progress(1), progress(2)]);
    vi.advanceTimersByTime(PARK_TIMEOUT_MS - 45_000);
    expect(bench.heard()).toMatchObject([
      { id: "q", result: { action: "cancel" } },
      { method: "notifications/cancelled" },
      { method: "ping" },
    ]);
    expect(parked.status).toEqual({ now: 0, expired: 1, refused: 0 });
  });

  it("its call waits no more once its server has exited", () => {
    const { bench, parked, call, serverSays } = start();
    call();
    serverSays(QUESTION);
    expect(parked.status.now).toBe(1);
    bench.lose();
    expect(parked.status).toEqual({ now: 0, expired: 0, refused: 0 });
  });

  it("is refused beyond 64 open ones, and beyond 1 MiB of those whose call is not known", () => {
    const { bench, call } = start();
    call();
    bench.heard();
    for (let id = 0; id < 65; id++) bench.say({ ...QUESTION, id });
    expect(bench.heard()).toMatchObject([{ id: 64, error: { message: "The client already has 64 requests to answer" } }]);
    const { bench: other, call: callOther } = start();
    callOther();
    callOther();
    other.heard();
    other.say({ ...QUESTION, id: "long", params: { message: "m".repeat(2 ** 20) } });
    expect(other.heard()).toEqual([]);
    other.say({ ...QUESTION, id: "next" });
    expect(other.heard()).toMatchObject([{ id: "next", error: {} }]);
  });

  it.each(['"method":"roots/list"', '"id":"other"'])("is refused if it also has %s, which another parser could read", (member) => {
    const { bench, call } = start();
    call();
    bench.heard();
    const { id, method, params } = QUESTION;
    bench.say(`{"jsonrpc":"2.0",${member},"id":"${id}","method":"${method}","params":${JSON.stringify(params)}}`);
    expect(bench.heard()).toMatchObject([{ error: { message: "The id or the method of the request occurs twice" } }]);
  });

  it("is not shown if the server withdraws it at once, and its call goes on", () => {
    const { bench, call, serverSays } = start();
    const raw = call();
    const [sent] = bench.heard();
    bench.say(QUESTION);
    expect(serverSays({ method: "notifications/cancelled", params: { requestId: "q" } })).toEqual([]);
    expect(raw.outcome).toBeUndefined();
    bench.say({ id: sent?.["id"], result: { content: [] } });
    expect(raw.outcome).toMatchObject({ content: [] });
  });

  it("refused ones are logged ten times in ten seconds, however many there are", () => {
    const { bench } = start();
    for (let id = 0; id < 20; id++) bench.say({ ...QUESTION, id });
    expect(bench.heard()).toHaveLength(20);
    expect(bench.log.messages.filter((message) => message === "server question refused")).toHaveLength(10);
  });

  it("is refused if there is no memory for it", () => {
    const { bench, call, serverSays } = start(new MemoryBudget(1).account("client"));
    call();
    bench.heard();
    expect(serverSays(QUESTION)).toMatchObject([{ id: "q", error: { message: expect.stringContaining("no memory left") as unknown } }]);
  });
});

/** A client without a session. */
class StatelessCaller extends Caller {
  readonly delivered: string[] = [];

  override deliver(text: string): void {
    this.delivered.push(text);
  }

  override deliverOnce(text: string): void {
    if (!this.delivered.includes(text)) this.deliver(text);
  }
}
