import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, describe, expect, it } from "vitest";
import { resultsIn, type Script, type ScriptedReply } from "../src/demo/scripted-model.ts";
import type { JsonObject } from "../src/manifest.ts";
import { objectsIn } from "../src/mediate/format.ts";
import { waitForHanging } from "../../../test/support/fixture-server.ts";
import { Bench, sequence, stopSharedSidecar } from "./bench.ts";
import { HostileServer } from "./hostile-server.ts";
import { AnthropicRunner, OpenAiRunner } from "./runners.ts";

afterAll(stopSharedSidecar);

const ECHO = { name: "tools__echo", args: { text: "hello" } };
const HANG = { name: "tools__hang", args: {} };
const QUESTION = { model: "m", messages: [{ role: "user", content: "go" }] };

/** Sends a request of OpenAI's format, or of Anthropic's. */
function post({ mediator }: Bench, path: "chat/completions" | "messages", body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${mediator.url}/analyst/v1/${path}`, {
    method: "POST",
    body: JSON.stringify({ ...QUESTION, ...body }),
    signal: signal ?? null,
  });
}

/** Returns a response of OpenAI's format. */
function openAiReply(message: object, choice: object = {}): Response {
  const choices = [{ index: 0, message: { role: "assistant", content: null, ...message }, finish_reason: "stop", ...choice }];
  return Response.json({ id: "c", object: "chat.completion", created: 1, model: "m", choices });
}

function openAiCalls(...calls: readonly object[]): Response {
  return openAiReply({ tool_calls: calls.map((call) => Object.assign({ type: "function" }, call)) });
}

function codesIn(body: JsonObject | undefined): unknown[] {
  return resultsIn(body ?? {}).map((text) => (JSON.parse(text) as { error?: JsonObject }).error?.["code"]);
}

describe("a turn", () => {
  it("ends with 502 after its time limit, and its calls are in the trace", async () => {
    const policy = "\n      tools-policy: { total-timeout-ms: 3000 }";
    await using bench = await Bench.start({ script: () => ({ calls: [HANG] }), policy });
    await expect(new OpenAiRunner(bench, false).say("go")).rejects.toMatchObject({ status: 502 });
    expect(bench.traces).toMatchObject([{ ending: "total_timeout", tool_trace: [{ tool_calls: [{ name: "tools.hang" }] }] }]);
  });

  it.each([true, false])("ends when the runner disconnects, streaming: %s", async (stream) => {
    await using bench = await Bench.start({ script: () => ({ calls: [HANG] }), keepAliveMs: 20, sidecar: {} });
    const leaving = new AbortController();
    const left = post(bench, "chat/completions", { stream }, leaving.signal).then((response) => response.text());
    left.catch(() => undefined);
    await waitForHanging(await bench.sidecar.client(), 1);
    leaving.abort();
    await expect(left).rejects.toThrow(/abort/);
    await bench.traced(1);
    expect(bench.traces).toMatchObject([{ status: 499, ending: "disconnected" }]);
    expect(bench.model.requests).toHaveLength(1);
  });

  it("a forced call is forced in the first round only", async () => {
    const script = (): Script => sequence({ calls: [ECHO] }, { text: "done" });
    await using bench = await Bench.start({ script: script() });
    await post(bench, "chat/completions", { tool_choice: "required" });
    await using other = await Bench.start({ script: script() });
    await post(other, "messages", { tool_choice: { type: "tool", name: "tools__echo", disable_parallel_tool_use: true } });
    expect([bench, other].map(({ model }) => model.requests.map((body) => body["tool_choice"]))).toEqual([
      ["required", "auto"],
      [
        { type: "tool", name: "tools__echo", disable_parallel_tool_use: true },
        { type: "auto", disable_parallel_tool_use: true },
      ],
    ]);
  });

  it("makes a call again that the sidecar has not sent", async () => {
    let count = 0;
    await using server = await HostileServer.start((response, id) => {
      if (count++ > 0) return HostileServer.say(response, id, "found");
      const error = { code: -32000, message: "The server is restarting.", data: { sent: false } };
      response.writeHead(503, { "Content-Type": "application/json" }).end(JSON.stringify({ jsonrpc: "2.0", id, error }));
    });
    await using bench = await Bench.start({ script: sequence({ calls: [ECHO] }, { calls: [ECHO] }, { text: "done" }), mcpUrl: server.url });
    await new OpenAiRunner(bench, false).say("go");
    const [rejected = "", found] = resultsIn(bench.model.requests[2] ?? {});
    expect(JSON.parse(rejected)).toEqual({ ok: false, error: { code: "http_503", message: "The server is restarting.", sent: false } });
    expect(found).toBe('{"ok":true,"data":"found"}');
  });

  it("thinking stays with the calls that it led to", async () => {
    const content = [
      { type: "thinking", thinking: "I need the echo.", signature: "s" },
      { type: "tool_use", id: "toolu_1", name: "tools__echo", input: { text: "hello" } },
    ];
    const reply = { id: "m", type: "message", role: "assistant", model: "m", stop_reason: "tool_use", usage: {}, content };
    const script: Script = (_body, count) => (count === 0 ? Response.json(reply) : { text: "done" });
    await using bench = await Bench.start({ script });
    expect(await new AnthropicRunner(bench, true).say("go")).toMatchObject({ text: "done" });
    expect(objectsIn(bench.model.requests[1]?.["messages"])[1]).toEqual({ role: "assistant", content });
  });

  it("a runner with a tool of the same name gets 400", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const response = await post(bench, "messages", { tools: [{ name: "tools__echo", input_schema: { type: "object" } }] });
    expect([response.status, await response.json()]).toMatchObject([400, { type: "error", error: { type: "invalid_request_error" } }]);
    expect(bench.model.requests).toEqual([]);
  });

  it("a custom tool of the runner reaches the runner", async () => {
    const call = { id: "call_1", type: "custom", custom: { name: "native", input: "free text" } };
    await using bench = await Bench.start({ script: () => openAiReply({ tool_calls: [call] }) });
    const response = await post(bench, "chat/completions", { tools: [{ type: "custom", custom: { name: "native" } }] });
    expect(await response.json()).toMatchObject({ choices: [{ message: { tool_calls: [call] } }] });
  });

  it("calls whose ids are empty or the same all get their own results", async () => {
    const echo = (text: string): object => ({ name: "tools__echo", arguments: JSON.stringify({ text }) });
    const calls = ["", "", "same", "same"].map((id, index) => ({ id, function: echo(String(index)) }));
    const script: Script = (_body, count) => (count === 0 ? openAiCalls(...calls) : { text: "done" });
    await using bench = await Bench.start({ script });
    await new OpenAiRunner(bench, false).say("go");
    const [, message, ...results] = objectsIn(bench.model.requests[1]?.["messages"]);
    const ids = objectsIn(message?.["tool_calls"]).map(({ id }) => id);
    expect(new Set(ids).size).toBe(4);
    expect(ids[2]).toBe("same");
    expect(results.map(({ tool_call_id: id }) => id)).toEqual(ids);
    expect(results.map(({ content }) => content)).toEqual(["0", "1", "2", "3"].map((text) => `{"ok":true,"data":"${text}"}`));
  });

  it("arguments that cannot be read are not sent to the model again", async () => {
    const deep = `{"text":${"[".repeat(300)}${"]".repeat(300)}}`;
    const calls = [`{"text`, deep].map((args, index) => ({ id: `call_${index}`, function: { name: "tools__echo", arguments: args } }));
    const script: Script = (_body, count) => (count < 2 ? openAiCalls(...calls) : { text: "done" });
    await using bench = await Bench.start({ script });
    await new OpenAiRunner(bench, false).say("go");
    const [, message] = objectsIn(bench.model.requests[1]?.["messages"]);
    expect(objectsIn(message?.["tool_calls"]).map((call) => (call["function"] as JsonObject)["arguments"])).toEqual(["{}", "{}"]);
    // They were never made, so the second time is no repetition.
    expect(codesIn(bench.model.requests[2])).toEqual(Array.from({ length: 4 }, () => "invalid_arguments"));
  });

  it("names of more than 64 characters are cut, and still found", async () => {
    const longName = "a".repeat(80);
    const script: Script = (body, count) => {
      const names = objectsIn(body["tools"]).map((tool) => String((tool["function"] as JsonObject)["name"]));
      const name = names.find((each) => each.startsWith("tools__aaa")) ?? "";
      expect(name).toHaveLength(64);
      return count === 0 ? { calls: [{ name, args: {} }] } : { text: "done" };
    };
    await using bench = await Bench.start({ script, moreTools: [longName] });
    await new OpenAiRunner(bench, false).say("go");
    expect(bench.traces[0]?.tool_trace[0]?.tool_calls[0]).toMatchObject({ name: `tools.${longName}`, result: { ok: false } });
  });
});

describe("a stream", () => {
  it("has pings of Anthropic during a long turn, and the error that ends it", async () => {
    const policy = "\n      tools-policy: { total-timeout-ms: 3000 }";
    await using bench = await Bench.start({ script: () => ({ calls: [HANG] }), keepAliveMs: 20, policy });
    const response = await post(bench, "messages", { stream: true });
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).toMatch(/^(event: ping\ndata: \{"type":"ping"\}\n\n)+event: error\ndata: \{"type":"error","error":\{"type":"api_error"/);
  });

  it.each([
    ["chat/completions", /data: \{"error":\{"message":"overloaded"\}\}\n\n$/],
    ["messages", /event: error\ndata: \{"type":"error","error":\{"message":"overloaded"\}\}\n\n$/],
  ] as const)("of %s ends with the error of the model after it has begun", async (path, end) => {
    const { promise: begun, resolve } = Promise.withResolvers<void>();
    const script: Script = async () => {
      await begun;
      return Response.json({ error: { message: "overloaded" } }, { status: 529 });
    };
    await using bench = await Bench.start({ script, keepAliveMs: 20 });
    const response = await post(bench, path, { stream: true });
    resolve();
    expect(await response.text()).toMatch(end);
  });

  it("has the text of the answer character by character, and what else the model said of it", async () => {
    const content = `\n  ${"🙂".repeat(100)} \n`;
    const logprobs = { content: [{ token: "🙂", logprob: -1, bytes: null, top_logprobs: [] }], refusal: null };
    await using bench = await Bench.start({ script: () => openAiReply({ content }, { logprobs }) });
    const client = new OpenAI({ baseURL: `${bench.mediator.url}/analyst/v1`, apiKey: "k", maxRetries: 0 });
    const stream = client.chat.completions.stream({ model: "m", messages: [{ role: "user", content: "go" }], logprobs: true });
    const pieces: string[] = [];
    stream.on("content", (delta) => pieces.push(delta));
    const { choices } = await stream.finalChatCompletion();
    expect(pieces.join("")).toBe(content);
    expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
    expect(choices[0]?.logprobs).toEqual(logprobs);
  });
});

describe("a hostile MCP server", () => {
  const TOOL = { name: "tools__endless", args: {} };

  it.each([
    ["JSON without an end", "application/json", '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"'],
    ["an event without an end", "text/event-stream", "event: message\ndata: "],
  ])("with %s ends its call, and its connection is closed", async (_name, type, begin) => {
    await using server = await HostileServer.start((response) => {
      response.writeHead(200, { "Content-Type": type });
      response.write(begin);
      const write = (): void => {
        response.write("x".repeat(65_536), (error) => {
          if (!error) setImmediate(write);
        });
      };
      write();
    });
    await using bench = await Bench.start({
      script: sequence({ calls: [TOOL] }, { text: "done" }),
      mcpUrl: server.url,
      moreTools: ["endless"],
    });
    await new OpenAiRunner(bench, false).say("go");
    expect(codesIn(bench.model.requests[1])).toEqual(["response_too_large"]);
    await server.closed;
  });

  it.each([
    [2000, "unreachable", 2000],
    [1_000_000, "response_too_large", 1000],
  ])("with %i parts of no type in a result ends its call, and harms no other", async (count, code, maxLength) => {
    await using server = await HostileServer.start((response, id) => {
      const result = `{"content":[${"{},".repeat(count)}{}]}`;
      response.setHeader("Content-Type", "application/json").end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
    });
    const script = sequence({ calls: [TOOL] }, { text: "done" });
    await using bench = await Bench.start({ script, mcpUrl: server.url, moreTools: ["endless"] });
    await new OpenAiRunner(bench, false).say("go");
    expect(codesIn(bench.model.requests[1])).toEqual([code]);
    expect(resultsIn(bench.model.requests[1] ?? {}).join("").length).toBeLessThan(maxLength);
  });

  it("that asks without an end is left when its call has ended", async () => {
    await using server = await HostileServer.start((response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      const timer = setInterval(() => response.write('data: {"jsonrpc":"2.0","id":"p","method":"ping"}\n\n'), 5);
      response.once("close", () => clearInterval(timer));
    });
    // On a busy machine, the client needs a while for the initialization, which is part of the time.
    const policy = "\n      tools-policy: { timeout-per-tool-ms: 5000 }";
    const script = sequence({ calls: [TOOL] }, { text: "done" });
    await using bench = await Bench.start({ script, mcpUrl: server.url, moreTools: ["endless"], policy });
    await new OpenAiRunner(bench, false).say("go");
    expect(codesIn(bench.model.requests[1])).toEqual(["timeout"]);
    await server.closed;
  });
});

describe("a server that cannot be reached", () => {
  const TOOL = { name: "tools__lost", args: {} };
  const HASTY = "\n      tools-policy: { timeout-per-tool-ms: 500 }";
  const manifestOf = (bench: Bench): string => readFileSync(join(bench.folder.contextFolder, "analyst/tools.json"), "utf8");
  const patientManifest = (bench: Bench): string =>
    manifestOf(bench).replace(/"timeout_per_tool_ms": ?500/, '"timeout_per_tool_ms": 100000');
  const start = (script: Script, server: HostileServer, policy: string): Promise<Bench> =>
    Bench.start({ script, mcpUrl: server.url, moreTools: ["lost"], policy });

  it("is connected anew by the next call, and nothing was sent to it before", async () => {
    let isLost = true;
    await using server = await HostileServer.start(
      (response, id) => HostileServer.say(response, id, "found"),
      () => isLost,
    );
    const script = sequence({ calls: [TOOL] }, { text: "done" }, { calls: [TOOL] }, { text: "done" });
    await using bench = await start(script, server, HASTY);
    await new OpenAiRunner(bench, false).say("go");
    isLost = false;
    bench.folder.write("context/analyst/tools.json", patientManifest(bench));
    await new OpenAiRunner(bench, false).say("go on");
    const message = "tools could not be reached within 500 ms. Nothing was sent.";
    expect(resultsIn(bench.model.requests[1] ?? {}).map((text) => JSON.parse(text) as unknown)).toEqual([
      { ok: false, error: { code: "timeout", message, sent: false } },
    ]);
    expect(resultsIn(bench.model.requests[3] ?? {})).toEqual(['{"ok":true,"data":"found"}']);
  });

  it("does not keep the calls of other agents until their time is over", async () => {
    let isLost = true;
    await using server = await HostileServer.start(
      (response, id) => HostileServer.say(response, id, "found"),
      (response) => {
        // The end of the first attempt.
        response.once("close", () => (isLost = false));
        return isLost;
      },
    );
    const script: Script = (body) => (resultsIn(body).length === 0 ? { calls: [TOOL] } : { text: resultsIn(body).join("") });
    await using bench = await start(script, server, HASTY);
    bench.folder.write("context/patient/tools.json", patientManifest(bench));
    const hasty = new OpenAiRunner(bench, false).say("go");
    await server.lost;
    expect(await new OpenAiRunner(bench, false, "patient").say("go")).toMatchObject({ text: '{"ok":true,"data":"found"}' });
    expect(await hasty).toMatchObject({ text: expect.stringContaining('"sent":false') as string });
  });

  it("says if the call may have taken effect", async () => {
    const server = await HostileServer.start(() => undefined);
    await server[Symbol.asyncDispose]();
    const context = (claw_id: string): NonNullable<ScriptedReply["calls"]> => [
      { name: "trading-api__get_market_context", args: { claw_id } },
    ];
    const script = sequence(
      { calls: [TOOL] },
      { calls: context("cut") },
      { text: "done" },
      { calls: context("refused") },
      { text: "done" },
    );
    await using bench = await start(script, server, "");
    await new OpenAiRunner(bench, false).say("go");
    bench.folder.write("context/analyst/tools.json", manifestOf(bench).replaceAll(/http:..127.0.0.1:\d+/g, server.url));
    await new OpenAiRunner(bench, false).say("go on");
    const results = [2, 4].flatMap((index) => resultsIn(bench.model.requests[index] ?? {}).map((text) => JSON.parse(text) as unknown));
    const failed = (message: RegExp, sent = {}): object => ({
      ok: false,
      error: { code: "unreachable", message: expect.stringMatching(message) as string, ...sent },
    });
    expect(results).toEqual([
      failed(/^tools cannot be reached: .*ECONNREFUSED.* Nothing was sent\.$/, { sent: false }),
      failed(/^The answer of trading-api cannot be read: .* The call may have taken effect\.$/),
      failed(/^trading-api cannot be reached: .*ECONNREFUSED.* Nothing was sent\.$/, { sent: false }),
    ]);
  });
});

describe("a model that is not as it should be", () => {
  it("with more calls at once than any provider allows ends the turn", async () => {
    const calls = Array.from({ length: 129 }, () => ({ id: "", function: { name: "x", arguments: "{}" } }));
    await using bench = await Bench.start({ script: () => openAiCalls(...calls) });
    const response = await post(bench, "chat/completions", {});
    expect([response.status, await response.json()]).toMatchObject([502, { error: { message: expect.stringContaining("128") as string } }]);
  });

  it("with a large member beside its text is streamed once", async () => {
    const script: Script = () => {
      const message = { role: "assistant", content: "x".repeat(100_000) };
      return Response.json({ id: "c", citations: "y".repeat(100_000), choices: [{ index: 0, message, finish_reason: "stop" }] });
    };
    await using bench = await Bench.start({ script });
    const text = await (await post(bench, "chat/completions", { stream: true })).text();
    expect(text.split("yyyy").length).toBe(25_001);
    expect(text.length).toBeLessThan(1_000_000);
  });

  it("with log probabilities of each token is answered", async () => {
    const top = Array.from({ length: 20 }, () => ({ token: "x", logprob: -1, bytes: [120] }));
    const content = Array.from({ length: 4000 }, () => ({ token: "x", logprob: -1, bytes: [120], top_logprobs: top }));
    await using bench = await Bench.start({ script: () => openAiReply({ content: "x" }, { logprobs: { content, refusal: null } }) });
    const response = await post(bench, "chat/completions", { logprobs: true, top_logprobs: 20 });
    expect(((await response.json()) as { choices: unknown[] }).choices).toMatchObject([{ logprobs: { content: { length: 4000 } } }]);
  });

  it.each([
    [
      "redirects",
      () => new Response(null, { status: 302, headers: { location: "http://elsewhere.example/" } }),
      /redirects to http:\/\/elsewhere/,
    ],
    ["answers without JSON", () => new Response("hello"), /cannot be read/],
    ["answers with a list", () => Response.json([]), /cannot be read/],
  ] as const)("if it %s, the runner gets 502", async (_name, script, message) => {
    await using bench = await Bench.start({ script });
    const response = await post(bench, "chat/completions", {});
    expect([response.status, await response.json()]).toMatchObject([502, { error: { message: expect.stringMatching(message) as string } }]);
  });

  it("an error without the form of the provider gets it", async () => {
    await using bench = await Bench.start({ script: () => Response.json({ detail: "no such model" }, { status: 404 }) });
    const response = await post(bench, "chat/completions", {});
    expect([response.status, await response.json()]).toMatchObject([404, { error: { message: '{"detail":"no such model"}' } }]);
  });

  it("a body above the limit gets 413 in the format of the client", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const response = await post(bench, "messages", { system: "x".repeat(33 * 1024 * 1024) });
    expect([response.status, await response.json()]).toMatchObject([413, { type: "error" }]);
  });
});
