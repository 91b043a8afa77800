import { readFileSync } from "node:fs";
import { join } from "node:path";
import OpenAI from "openai";
import { afterAll, describe, expect, it } from "vitest";
import { resultsIn, type Script } from "../src/demo/scripted-model.ts";
import { objectsIn } from "../src/mediate/format.ts";
import { EXAMPLE } from "../../../test/support/sidecar.ts";
import { Bench, killDuringCall, sequence, stopSharedSidecar } from "./bench.ts";
import { AnthropicRunner, OpenAiRunner } from "./runners.ts";

afterAll(stopSharedSidecar);

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
    const statusOf = async (path: string, headers: Readonly<Record<string, string>> = {}): Promise<number> =>
      (await fetch(`${bench.mediator.url}/analyst${path}`, { headers })).status;
    expect(await statusOf("/v1/models", { Origin: "https://evil.example" })).toBe(403);
    expect(await statusOf("/v1/models", { "Sec-Fetch-Site": "same-origin" })).toBe(403);
    for (const path of ["/v1/..%2fadmin", "/v1/..;/x", "/v1/chat%2Fcompletions"]) expect(await statusOf(path)).toBe(404);
    expect((await fetch(`${bench.mediator.url}/${"x".repeat(300)}/v1/models`)).status).toBe(404);
    expect(await statusOf("/v1//models/")).toBe(200);
    expect(bench.model.requests).toEqual([]);
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
