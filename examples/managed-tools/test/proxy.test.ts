import { once } from "node:events";
import { readFileSync } from "node:fs";
import { type IncomingMessage, request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, describe, expect, it } from "vitest";
import { resultsIn, type Script } from "../src/demo/scripted-model.ts";
import { objectsIn } from "../src/mediate/format.ts";
import { EXAMPLE } from "../../../test/support/sidecar.ts";
import { Bench, killDuringCall, sequence, stopSharedSidecar } from "./bench.ts";
import { AnthropicRunner, OpenAiRunner } from "./runners.ts";

afterAll(stopSharedSidecar);

/** Sends GET with a `Host` of its own. @param target a path, or a whole URL as proxies get it. */
async function statusOf({ mediator }: Bench, host: string, target = "/analyst/v1/models"): Promise<number | undefined> {
  const sent = request({ host: "127.0.0.1", port: new URL(mediator.url).port, path: target, headers: { Host: host } }).end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  response.resume();
  return response.statusCode;
}

describe("the proxy", () => {
  it("requests of an agent without tools pass unchanged, and so do other paths", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    expect(await new OpenAiRunner(bench, false, "plain").say("go")).toEqual({ text: "hello", calls: [], totalTokens: 15 });
    expect(objectsIn(bench.model.requests[0]?.["tools"])).toHaveLength(1);
    expect(bench.model.headers[0]?.get("authorization")).toBe("Bearer runner-key");
    const models = await new OpenAI({ baseURL: `${bench.mediator.url}/analyst/v1`, apiKey: "k", maxRetries: 0 }).models.list();
    expect(models.data.map(({ id }) => id)).toEqual(["scripted"]);
    expect(bench.traces).toMatchObject([
      { agent: "plain", ending: "passed", manifest_present: false, tools_count: 0 },
      { path: "/v1/models", ending: "passed", manifest_present: true },
    ]);
    expect((await fetch(`${bench.mediator.url}/nobody/v1/models`)).status).toBe(404);
    expect((await fetch(`${bench.mediator.url}/%61nalyst/v1/models`)).status).toBe(200);
  });

  it("a stream stays open during a long turn", async () => {
    await using bench = await Bench.start({
      script: sequence({ calls: [{ name: "tools__hang", args: {} }] }, { text: "done" }),
      keepAliveMs: 20,
      sidecar: {},
    });
    const response = await fetch(`${bench.mediator.url}/analyst/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "m", stream: true, messages: [{ role: "user", content: "go" }] }),
    });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toContain(": keep-alive\n\n");
    await killDuringCall(bench);
    let rest = "";
    for (let part = await reader?.read(); part?.done === false; part = await reader?.read()) rest += Buffer.from(part.value).toString();
    expect(rest).toMatch(/data: \[DONE\]\n\n$/);
  });

  it("web pages, and paths that a provider could decode, are rejected", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const statusFor = async (path: string, headers: Readonly<Record<string, string>> = {}): Promise<number> =>
      (await fetch(`${bench.mediator.url}/analyst${path}`, { headers })).status;
    expect(await statusFor("/v1/models", { Origin: "https://evil.example" })).toBe(403);
    expect(await statusFor("/v1/models", { "Sec-Fetch-Site": "same-origin" })).toBe(403);
    for (const path of ["/v1/..%2fadmin", "/v1/..;/x", "/v1/chat%2Fcompletions"]) expect(await statusFor(path)).toBe(404);
    expect((await fetch(`${bench.mediator.url}/${"x".repeat(300)}/v1/models`)).status).toBe(404);
    expect(await statusFor("/v1//models/")).toBe(200);
    expect(bench.model.requests).toEqual([]);
  });

  it.each([
    { host: "127.0.0.1", allowed: ["localhost:8400", "127.0.0.1", "[::1]:80", "LOCALHOST.", "10.0.2.2", "own.example:1"], name: "proxy" },
    {
      host: "0.0.0.0",
      allowed: ["proxy:8400", "proxy.pod.svc", "proxy.pod.svc.cluster.local", "host.docker.internal", "10.1.2.3", "own.example"],
      name: "proxy.example",
    },
  ])("a page whose name resolves to $host reaches no model", async ({ host, allowed, name }) => {
    await using bench = await Bench.start({
      script: () => ({ text: "hello" }),
      modelKey: "model-key",
      host,
      allowedHosts: ["own.example"],
    });
    const rejected = [name, "evil.example", "evil.example:8400", "127.0.0.1.evil.example", "evil.own.example", "localhost.evil.example."];
    for (const each of rejected) expect([each, await statusOf(bench, each)]).toEqual([each, 403]);
    expect(await statusOf(bench, "localhost", "http://evil.example/analyst/v1/models")).toBe(403);
    expect(bench.traces).toEqual([]);
    for (const each of allowed) expect([each, await statusOf(bench, each)]).toEqual([each, 200]);
  });

  it("only what a model needs reaches the provider", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }), modelKey: "model-key" });
    const rejected = [
      ...["files", "files/f/content", "responses/r", "chat/completions", "organization/api_keys", "messages/batches"].map(
        (path) => `GET ${path}`,
      ),
      ...["models", "files", "messages/batches", "fine_tuning/jobs", "chat/completions/c", "audio/speech"].map((path) => `POST ${path}`),
      "DELETE models/m",
      "DELETE responses/r",
      "PUT chat/completions",
      "PATCH models/m",
    ];
    const answers = [];
    for (const each of rejected) {
      const [method = "", path] = each.split(" ");
      const response = await fetch(`${bench.mediator.url}/analyst/v1/${path}`, { method });
      const { error } = (await response.json()) as { readonly error: { readonly message: string } };
      answers.push([response.status, error.message]);
    }
    expect(answers).toEqual(rejected.map((each) => [404, `The proxy does not pass ${each.replace(" ", " /v1/")} to models.`]));
    expect(bench.traces).toEqual([]);
    // The model of this test does not have them all.
    const passed = [
      "GET models",
      "GET models/m",
      ...["completions", "embeddings", "responses", "messages/count_tokens"].map((path) => `POST ${path}`),
    ];
    for (const each of passed) {
      const [method = "", path] = each.split(" ");
      await fetch(`${bench.mediator.url}/analyst/v1/${path}`, { method });
    }
    expect(bench.traces.map(({ ending }) => ending)).toEqual(passed.map(() => "passed"));
  });

  it("an agent with many requests in flight gets 429, and others are answered", async () => {
    const { promise: allAsked, resolve: onAllAsked } = Promise.withResolvers<void>();
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const script: Script = async (_body, count) => {
      if (count === 31) onAllAsked();
      if (count < 32) await answered;
      return { text: "hello" };
    };
    await using bench = await Bench.start({ script });
    const waiting = Array.from({ length: 32 }, () => new OpenAiRunner(bench, false).say("go"));
    await allAsked;
    await expect(new OpenAiRunner(bench, false).say("go")).rejects.toMatchObject({ status: 429 });
    expect(await new OpenAiRunner(bench, false, "plain").say("go")).toMatchObject({ text: "hello" });
    answer();
    await Promise.all(waiting);
    expect(await new OpenAiRunner(bench, false).say("go")).toMatchObject({ text: "hello" });
  });

  it("of thousands of requests at once on a connection, most are dropped", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const { hostname, port } = new URL(bench.mediator.url);
    const socket = connect(Number(port), hostname).on("error", () => undefined);
    socket.write("GET /analyst/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000));
    await once(socket.resume(), "close");
    expect((await fetch(`${bench.mediator.url}/analyst/v1/models`)).status).toBe(200);
    expect(bench.traces.length).toBeGreaterThan(0);
    expect(bench.traces.length).toBeLessThan(100);
  });

  it("an agent with large requests in flight gets 429, and others are answered", async () => {
    const { promise: asked, resolve: onAsked } = Promise.withResolvers<void>();
    const { promise: answered, resolve: answer } = Promise.withResolvers<void>();
    const script: Script = async (_body, count) => {
      onAsked();
      if (count === 0) await answered;
      return { text: "hello" };
    };
    await using bench = await Bench.start({ script });
    const statusOfLarge = async (agent: string, isStreamed = false): Promise<number> => {
      const text = JSON.stringify({ model: "m", messages: [{ role: "user", content: "x".repeat(20 * 1024 * 1024) }] });
      const body = isStreamed ? new Blob([text]).stream() : text;
      const url = `${bench.mediator.url}/${agent}/v1/chat/completions`;
      const response = await fetch(url, { method: "POST", body, ...(isStreamed && { duplex: "half" }) });
      await response.body?.cancel();
      return response.status;
    };
    const first = statusOfLarge("analyst");
    await asked;
    expect(await statusOfLarge("analyst")).toBe(429);
    expect(await statusOfLarge("analyst", true)).toBe(429);
    expect(await statusOfLarge("executor")).toBe(200);
    expect(await new OpenAiRunner(bench, false).say("go")).toMatchObject({ text: "hello" });
    answer();
    expect(await first).toBe(200);
    await expect.poll(() => statusOfLarge("analyst"), { timeout: 30_000 }).toBe(200);
    expect(await statusOfLarge("analyst", true)).toBe(200);
  });

  it("a body with millions of values, which all agents would wait for, gets 400", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const statusFor = async (content: string): Promise<number> => {
      const body = `{"model":"m","messages":[{"role":"user","content":[${content}]}]}`;
      return (await fetch(`${bench.mediator.url}/analyst/v1/chat/completions`, { method: "POST", body })).status;
    };
    expect(await statusFor(`${"{},".repeat(1_000_000)}{}`)).toBe(400);
    expect(await statusFor(`${"1,".repeat(1_000_000)}1`)).toBe(400);
    // Those in a text are no values.
    expect(await statusFor(JSON.stringify({ type: "text", text: '{"\\":[1,2]}\n'.repeat(1_000_000) }))).toBe(200);
    expect(bench.model.requests).toHaveLength(1);
  });

  it("the key of the model replaces that of the runner", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }), modelKey: "model-key" });
    await new OpenAiRunner(bench, false).say("go");
    await new AnthropicRunner(bench, false).say("go");
    expect(bench.model.headers.map((headers) => [headers.get("authorization"), headers.get("x-api-key")])).toEqual([
      ["Bearer model-key", null],
      [null, "model-key"],
    ]);
  });

  it("a manifest that is replaced counts from the next request, and a broken one does not", async () => {
    await using bench = await Bench.start({ script: () => ({ text: "hello" }) });
    const runner = new OpenAiRunner(bench, false);
    const counts: number[] = [];
    const count = async (): Promise<void> => {
      await runner.say("go");
      counts.push(objectsIn(bench.model.requests.at(-1)?.["tools"]).length);
    };
    await count();
    bench.folder.write("context/analyst/tools.json", "{");
    await count();
    bench.folder.write("context/analyst/tools.json", {
      version: 1,
      tools: [],
      policy: { max_rounds: 1, timeout_per_tool_ms: 1, total_timeout_ms: 1, max_tool_result_bytes: 256 },
    });
    await count();
    expect(counts).toEqual([7, 7, 1]);
  });

  it("fifty agents at once all get their own results", async () => {
    const script: Script = (body) => {
      const [result] = resultsIn(body);
      const [message] = objectsIn(body["messages"]);
      const text = String(message?.["content"]);
      return result === undefined ? { calls: [{ name: "tools__echo", args: { text } }] } : { text: result };
    };
    await using bench = await Bench.start({ script, sidecar: { command: [process.execPath, EXAMPLE] } });
    const manifest = readFileSync(join(bench.folder.contextFolder, "analyst/tools.json"), "utf8");
    for (let index = 0; index < 50; index++) bench.folder.write(`context/agent-${index}/tools.json`, manifest);
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        new (index % 2 === 0 ? OpenAiRunner : AnthropicRunner)(bench, index % 3 === 0, `agent-${index}`).say(`agent ${index}`),
      ),
    );
    expect(answers.map(({ text }) => text)).toEqual(Array.from({ length: 50 }, (_, index) => `{"ok":true,"data":"agent ${index}"}`));
  });
});
