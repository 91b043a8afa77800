import { afterAll, describe, expect, it } from "vitest";
import { resultsIn, type ScriptedReply, type Script } from "../src/demo/scripted-model.ts";
import type { JsonObject } from "../src/manifest.ts";
import { objectsIn } from "../src/mediate/format.ts";
import { Sidecar } from "../../../test/support/sidecar.ts";
import { Bench, killDuringCall, sequence, stopSharedSidecar } from "./bench.ts";
import { AnthropicRunner, OpenAiRunner } from "./runners.ts";

afterAll(stopSharedSidecar);

const CONTEXT = { name: "trading-api__get_market_context", args: { claw_id: "analyst-0" } };
const ECHO = { name: "tools__echo", args: { text: "hello" } };
const NATIVE = { name: "native", args: { x: 1 } };

/** Returns the roles and calls of a conversation, in order, as a model sees it. */
function shapeOf(body: JsonObject | undefined): string[] {
  return objectsIn(body?.["messages"]).map((message) => {
    const blocks = objectsIn(message["content"]);
    const calls = [
      ...objectsIn(message["tool_calls"]).map((call) => String((call["function"] as JsonObject)["name"])),
      ...blocks.filter(({ type }) => type === "tool_use").map(({ name }) => String(name)),
    ];
    const isResult = message["role"] === "tool" || blocks.some(({ type }) => type === "tool_result");
    return isResult ? "result" : [String(message["role"]), ...calls].join(" ");
  });
}

describe.each([
  { format: "openai", isStreaming: false, createRunner: OpenAiRunner },
  { format: "openai", isStreaming: true, createRunner: OpenAiRunner },
  { format: "anthropic", isStreaming: false, createRunner: AnthropicRunner },
  { format: "anthropic", isStreaming: true, createRunner: AnthropicRunner },
])("the official client of $format, streaming: $isStreaming", ({ isStreaming, createRunner }) => {
  it("managed calls are executed, and the runner sees the answer alone", async () => {
    await using bench = await Bench.start({ script: sequence({ calls: [CONTEXT, ECHO] }, { text: "The balance is 50000." }) });
    const runner = new createRunner(bench, isStreaming);
    expect(await runner.say("What is my balance?")).toEqual({ text: "The balance is 50000.", calls: [], totalTokens: 30 });
    expect(bench.served).toEqual(["GET /api/v1/market_context/analyst-0"]);
    const [first, second] = bench.model.requests;
    expect(first).toMatchObject({ stream: false });
    expect(objectsIn(first?.["tools"])).toHaveLength(7);
    expect(resultsIn(second ?? {}).map((text) => JSON.parse(text) as unknown)).toEqual([
      { ok: true, data: { balance: 50_000 } },
      { ok: true, data: "hello" },
    ]);
    expect(bench.traces).toMatchObject([
      {
        agent: "analyst",
        status: 200,
        manifest_present: true,
        tools_count: 6,
        tool_trace: [
          { round: 1, tool_calls: [{ name: "trading-api.get_market_context", service: "trading-api" }, { name: "tools.echo" }] },
        ],
      },
    ]);
  });

  it("calls of the runner's own tools reach the runner unchanged", async () => {
    await using bench = await Bench.start({ script: sequence({ text: "I use yours.", calls: [NATIVE] }, { text: "done" }) });
    const runner = new createRunner(bench, isStreaming);
    expect(await runner.say("go")).toEqual({ text: "I use yours.", calls: ["native"], totalTokens: 15 });
    expect(await runner.answer("42")).toMatchObject({ text: "done" });
    expect(shapeOf(bench.model.requests[1])).toEqual(["user", "assistant native", "result"]);
  });

  it("of managed calls before others, the first are executed, and the others are asked for again", async () => {
    await using bench = await Bench.start({ script: sequence({ calls: [ECHO, NATIVE] }, { calls: [NATIVE] }, { text: "done" }) });
    const runner = new createRunner(bench, isStreaming);
    expect(await runner.say("go")).toMatchObject({ calls: ["native"] });
    expect(shapeOf(bench.model.requests[1])).toEqual(["user", "assistant tools__echo", "result"]);
    expect(await runner.answer("42")).toMatchObject({ text: "done" });
    // The hidden round comes before the call that the runner has seen.
    expect(shapeOf(bench.model.requests[2])).toEqual(["user", "assistant tools__echo", "result", "assistant native", "result"]);
  });

  it("other calls before managed ones are rejected without being seen, and the model plans again", async () => {
    await using bench = await Bench.start({ script: sequence({ calls: [NATIVE, ECHO] }, { calls: [ECHO] }, { text: "done" }) });
    expect(await new createRunner(bench, isStreaming).say("go")).toMatchObject({ text: "done", calls: [] });
    const rejected = resultsIn(bench.model.requests[1] ?? {}).map((text) => (JSON.parse(text) as { error: JsonObject }).error["code"]);
    expect(rejected).toEqual(["mixed_tool_calls", "mixed_tool_calls"]);
    expect(resultsIn(bench.model.requests[2] ?? {}).at(-1)).toBe('{"ok":true,"data":"hello"}');
  });

  it("hidden rounds of former turns are part of the conversation again, and of no other", async () => {
    const script: Script = (_body, count) => (count % 2 === 0 ? { calls: [ECHO] } : { text: "Done." });
    await using bench = await Bench.start({ script });
    const runner = new createRunner(bench, isStreaming);
    await runner.say("first");
    await runner.say("second");
    expect(shapeOf(bench.model.requests[2])).toEqual(["user", "assistant tools__echo", "result", "assistant", "user"]);
    const other = new createRunner(bench, isStreaming);
    other.messages.push({ role: "user", content: "another" }, { role: "assistant", content: "Done." });
    await other.say("second");
    expect(shapeOf(bench.model.requests[4])).toEqual(["user", "assistant", "user"]);
  });

  it("the rounds of two conversations that are the same word for word are not mixed", async () => {
    const script: Script = (_body, count) =>
      count % 2 === 0 ? { calls: [{ ...ECHO, args: { text: `secret ${count}` } }] } : { text: "Done." };
    await using bench = await Bench.start({ script });
    const [one, other] = [new createRunner(bench, isStreaming), new createRunner(bench, isStreaming)];
    await one.say("go");
    await other.say("go");
    await one.say("again");
    expect(shapeOf(bench.model.requests[4])).toEqual(["user", "assistant", "user"]);
  });

  it("a conversation does not get the rounds of another one that is the same, but had none", async () => {
    const script: Script = (_body, count) => (count === 1 ? { calls: [ECHO] } : { text: "Done." });
    await using bench = await Bench.start({ script });
    const [one, other] = [new createRunner(bench, isStreaming), new createRunner(bench, isStreaming)];
    await one.say("go");
    await other.say("go");
    await one.say("again");
    expect(shapeOf(bench.model.requests[3])).toEqual(["user", "assistant", "user"]);
  });

  it("a call that is repeated is not made again", async () => {
    await using bench = await Bench.start({
      script: sequence({ calls: [CONTEXT] }, { calls: [CONTEXT] }, { calls: [CONTEXT] }, { text: "done" }),
    });
    await new createRunner(bench, isStreaming).say("go");
    expect(bench.served).toHaveLength(1);
    const results = resultsIn(bench.model.requests[3] ?? {}).map((text) => (JSON.parse(text) as { error?: JsonObject }).error);
    expect(results).toMatchObject([
      undefined,
      { code: "duplicate_tool_call", original_round: 1, duplicate_count: 1 },
      { duplicate_count: 2 },
    ]);
    expect(bench.traces[0]?.tool_trace[2]?.tool_calls[0]).toMatchObject({ original_round: 1, duplicate_count: 2 });
  });

  it("too many rounds are an error of the proxy", async () => {
    const script: Script = (_body, count) => ({ calls: [{ ...ECHO, args: { text: String(count) } }] });
    await using bench = await Bench.start({ script, policy: "\n      tools-policy: { max-rounds: 2 }" });
    const runner = new createRunner(bench, isStreaming);
    runner.maxRetries = 2;
    await expect(runner.say("go")).rejects.toMatchObject({ status: 502 });
    // A retry would make the calls again.
    expect(bench.model.requests).toHaveLength(3);
    expect(bench.traces[0]).toMatchObject({ ending: "max_rounds", tool_trace: [{ round: 1 }, { round: 2 }] });
  });

  it("an error of the model reaches the runner with its status", async () => {
    const script: Script = () => new Response('{"error":{"message":"slow down"}}', { status: 429, headers: { "retry-after": "7" } });
    await using bench = await Bench.start({ script });
    await expect(new createRunner(bench, isStreaming).say("go")).rejects.toMatchObject({ status: 429 });
  });
});

describe("the results that a model gets", () => {
  async function resultOf(
    call: NonNullable<ScriptedReply["calls"]>[number],
    options: Partial<Parameters<typeof Bench.start>[0]> = {},
  ): Promise<JsonObject> {
    await using bench = await Bench.start({ script: sequence({ calls: [call] }, { text: "done" }), ...options });
    await new OpenAiRunner(bench, false).say("go");
    const [text = ""] = resultsIn(bench.model.requests[1] ?? {});
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(16_384);
    return JSON.parse(text) as JsonObject;
  }

  it.each([
    [
      "a result above the limit is cut, and says so",
      { ...CONTEXT, args: { claw_id: "large" } },
      { ok: true, truncated: true, total_bytes: 200_035 },
    ],
    [
      "an error of a service has its status and body",
      { ...CONTEXT, args: { claw_id: "broke" } },
      { ok: false, error: { code: "http_404", body: { error: "no such agent" } } },
    ],
    [
      "an error above the limit has the beginning of its body",
      { ...CONTEXT, args: { claw_id: "explained" } },
      {
        ok: false,
        truncated: true,
        error: {
          code: "http_500",
          message: expect.stringMatching(/http_500: The service answered 500\. \{"body":\{"error":"xxx/) as string,
        },
      },
    ],
    [
      "a result that is nested very deeply is a text",
      { ...CONTEXT, args: { claw_id: "deep" } },
      { ok: true, truncated: true, total_bytes: 400_021, data: expect.stringMatching(/^\[+$/) as string },
    ],
    [
      "an argument that a service does not declare is rejected",
      { ...CONTEXT, args: { claw_id: "analyst-0", admin: true } },
      { ok: false, error: { code: "invalid_arguments", message: expect.stringContaining("admin") as string } },
    ],
    [
      "an argument cannot lead to another path",
      { ...CONTEXT, args: { claw_id: ".." } },
      { ok: false, error: { code: "invalid_arguments" } },
    ],
    ["an argument of the path cannot be empty", { ...CONTEXT, args: { claw_id: "" } }, { ok: false, error: { code: "invalid_arguments" } }],
    [
      "a missing argument is named",
      { ...CONTEXT, args: {} },
      { ok: false, error: { code: "invalid_arguments", message: expect.stringContaining("claw_id") as string } },
    ],
    ["arguments that are not JSON are rejected", { ...CONTEXT, args: "{claw_id" }, { ok: false, error: { code: "invalid_arguments" } }],
    [
      "an unknown name is rejected, with the names that exist",
      { name: "trading-api__sell_all", args: {} },
      { ok: false, error: { code: "unknown_tool" } },
    ],
    ["a tool is found by the name in the contract too", { ...ECHO, name: "tools.echo" }, { ok: true, data: "hello" }],
    ["a tool that the server no longer has is an error", { name: "tools__add", args: { a: 1 } }, { ok: false }],
  ])("%s", async (_name, call, result) => {
    expect(await resultOf(call)).toMatchObject(result);
  });

  it("a response that is not read to its end says so, also below the limit of results", async () => {
    const policy = "\n      tools-policy: { max-tool-result-bytes: 8000000 }";
    await using bench = await Bench.start({
      script: sequence({ calls: [{ ...CONTEXT, args: { claw_id: "huge" } }] }, { text: "done" }),
      policy,
    });
    await new OpenAiRunner(bench, false).say("go");
    const [text = ""] = resultsIn(bench.model.requests[1] ?? {});
    expect(JSON.parse(text)).toMatchObject({ ok: true, truncated: true, data: expect.stringMatching(/^x{4194304}/) as string });
  });

  it("a server that is slower than the limit of a tool is an error", async () => {
    const policy = "\n      tools-policy: { timeout-per-tool-ms: 300 }";
    expect(await resultOf({ name: "tools__hang", args: {} }, { policy })).toMatchObject({ ok: false, error: { code: "timeout" } });
  });

  it("a server without sessions is called too", async () => {
    expect(await resultOf(ECHO, { sidecar: { mode: "modern-only" } })).toEqual({ ok: true, data: "hello" });
  });

  it("a server that is killed during a call is an error that says what happened", async () => {
    await using bench = await Bench.start({
      script: sequence({ calls: [{ name: "tools__hang", args: {} }] }, { calls: [ECHO] }, { text: "done" }),
      sidecar: {},
    });
    const turn = new OpenAiRunner(bench, false).say("go");
    await killDuringCall(bench);
    expect(await turn).toMatchObject({ text: "done" });
    const [killed = "", echoed] = resultsIn(bench.model.requests[2] ?? {});
    expect(JSON.parse(killed)).toMatchObject({ ok: false, error: { message: expect.stringMatching(/exited|ended/) as string } });
    expect(echoed).toBe('{"ok":true,"data":"hello"}');
  });

  it("a sidecar that has been replaced, and does not know the session, is called again", async () => {
    const flags = ["--modern=off"];
    await using bench = await Bench.start({
      script: (_body, count) => (count % 2 === 0 ? { calls: [ECHO] } : { text: "done" }),
      sidecar: { flags },
    });
    await new OpenAiRunner(bench, false).say("go");
    await bench.sidecar.stop();
    await using next = await Sidecar.start({ flags: [...flags, "--addr", new URL(bench.sidecar.origin).host] });
    await new OpenAiRunner(bench, false).say("again");
    expect(next.childPid).not.toBe(bench.sidecar.childPid);
    expect(resultsIn(bench.model.requests[3] ?? {})).toEqual(['{"ok":true,"data":"hello"}']);
  });
});
