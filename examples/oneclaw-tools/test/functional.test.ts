import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { toAnthropic } from "../src/providers/anthropic.ts";
import { toGemini } from "../src/providers/gemini.ts";
import { toOpenAi } from "../src/providers/openai.ts";
import { failure } from "../src/tool.ts";
import { tools as builtIn } from "../src/tools/built-in.ts";
import { decide, readQuestion, success, type ToolClient, ToolServer } from "./tool-server.ts";
import { WebServer } from "./web-server.ts";

const HALF_AN_HOUR_MS = 1_800_000;

// The titles are the test points of the feature document.
describe("Functional Tests", () => {
  let server: ToolServer;
  let web: WebServer;
  let client: ToolClient;
  beforeAll(async () => {
    [server, web] = await Promise.all([ToolServer.start(), WebServer.start()]);
    client = await server.session();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await Promise.all([server[Symbol.asyncDispose](), web[Symbol.asyncDispose]()]);
  });

  const resultOf = async (name: string, args: Record<string, unknown> = {}): Promise<unknown> => {
    const outcome = await client.call(name, args);
    if (outcome.status === "error") throw new Error(JSON.stringify(outcome));
    return outcome.result;
  };

  it("Verify get_current_time returns correct time in default and specified timezones", async () => {
    const zones = [{}, { timezone: "America/New_York" }, { timezone: "Asia/Kolkata" }, { timezone: "UTC", format: "ISO8601" }];
    const times = (await Promise.all(zones.map((args) => resultOf("get_current_time", args)))) as string[];
    for (const time of times) {
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
      expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(HALF_AN_HOUR_MS);
    }
    expect(times.map((time) => time.slice(19)).slice(1)).toEqual([expect.stringMatching(/^-0[45]:00$/), "+05:30", "+00:00"]);
    const here = new Date();
    expect(new Date(`${times[0]?.slice(0, 19)}`).getTimezoneOffset()).toBe(here.getTimezoneOffset());
    expect(await resultOf("get_current_time", { timezone: "UTC", format: "human_readable" })).toMatch(/^\w+day, \w+ \d+, \d{4} at .* UTC$/);
    expect(await client.call("get_current_time", { timezone: "Mars/Olympus" })).toEqual(
      failure("validation_error", 'The timezone "Mars/Olympus" is unknown'),
    );
  });

  it("Verify read_file reads file contents correctly", async () => {
    writeFileSync(server.folder.file("notes.txt"), "naïve ✓\n");
    writeFileSync(server.folder.file("wide.txt"), Buffer.from("wide", "utf16le"));
    expect(await resultOf("read_file", { path: "notes.txt" })).toBe("naïve ✓\n");
    expect(await resultOf("read_file", { path: server.folder.file("notes.txt") })).toBe("naïve ✓\n");
    expect(await resultOf("read_file", { path: "wide.txt", encoding: "utf-16le" })).toBe("wide");
  });

  it("Verify read_file returns error for non-existent file", async () => {
    expect(await client.call("read_file", { path: "missing/notes.txt" })).toEqual(
      failure("execution_error", "File not found: missing/notes.txt"),
    );
  });

  it("Verify write_file writes content correctly (overwrite and append modes)", async () => {
    const path = "new/folder/list.txt";
    expect(await resultOf("write_file", { path, content: "a much longer text" })).toEqual({ path, bytes_written: 18 });
    expect(await resultOf("write_file", { path, content: "é", mode: "overwrite" })).toEqual({ path, bytes_written: 2 });
    expect(await resultOf("write_file", { path, content: "+", mode: "append" })).toEqual({ path, bytes_written: 1 });
    expect(readFileSync(server.folder.file(path), "utf8")).toBe("é+");
  });

  it("Verify http_request makes GET/POST requests correctly", async () => {
    const get = { url: web.url("/hello"), headers: { "X-Custom": "1" } };
    expect(await resultOf("http_request", get)).toMatchObject({ status: 200, body: "hello", headers: { "content-type": "text/plain" } });
    await resultOf("http_request", { url: web.url("/hello?q=1"), method: "POST", body: "é" });
    await resultOf("http_request", { url: web.url("/hello"), method: "PUT", body: "p" });
    await resultOf("http_request", { url: web.url("/hello"), method: "DELETE" });
    expect(web.seen.slice(-4)).toMatchObject([
      { method: "GET", headers: { "x-custom": "1" }, body: "" },
      { method: "POST", path: "/hello?q=1", body: "é" },
      { method: "PUT", body: "p" },
      { method: "DELETE", body: "" },
    ]);
  });

  it("Verify http_request handles various HTTP status codes", async () => {
    for (const status of [201, 204, 304, 400, 404, 418, 500, 503]) {
      expect(await resultOf("http_request", { url: web.url(`/status/${status}`) })).toMatchObject({
        status,
        body: status === 204 || status === 304 ? "" : `status ${status}`,
      });
    }
  });

  it("Verify tool timeout aborts execution and returns error", async () => {
    const outcome = failure("timeout", "misbehave_briefly was aborted after its time limit of 400 ms");
    expect(await client.call("misbehave_briefly", { how: "hang" })).toEqual(outcome);
    expect(await client.call("misbehave_briefly", { how: "spin" })).toEqual(outcome);
    // The aborted tool removes the file. A tool that is not aborted leaves it.
    const held = server.folder.file("held");
    writeFileSync(held, "");
    expect(await client.call("hold_file_briefly")).toMatchObject({ error_type: "timeout" });
    await expect.poll(() => existsSync(held)).toBe(false);
  });

  it("Verify tool crash is caught and returns error (app stays alive)", async () => {
    const pid = server.sidecar.childPid;
    expect(await client.call("misbehave", { how: "throw" })).toEqual(failure("execution_error", "misbehave crashed: broken on purpose"));
    expect(await client.call("misbehave", { how: "exit" })).toMatchObject({ error_type: "execution_error" });
    expect(await resultOf("get_current_time")).toMatch(/^\d/);
    expect(server.sidecar.childPid).toBe(pid);
  });

  it("Verify Android permission dialog appears when needed", async () => {
    const asked: unknown[] = [];
    await using session = await server.session(({ params }) => {
      asked.push(readQuestion(params));
      return decide("Allow");
    });
    await using stateless = await server.stateless((message, choices) => {
      asked.push({ message, choices });
      return decide("Allow this time");
    });
    expect(await session.call("get_current_time")).toMatchObject({ status: "success" });
    expect(asked).toEqual([]);
    expect(await session.call("get_location")).toEqual(success("52.5, 13.4"));
    expect(await stateless.call("get_location")).toEqual(success("52.5, 13.4"));
    const message = "The tool get_location needs the permission ACCESS_FINE_LOCATION.";
    expect(asked).toEqual([
      { message, choices: ["Allow", "Deny", "Deny and don't ask again"] },
      { message, choices: ["Allow this time", "Deny"] },
    ]);
  });

  it("Verify permission denial returns error to model", async () => {
    const denied = failure("permission_denied", "Permission ACCESS_FINE_LOCATION was denied by the user");
    for (const answer of [decide("Deny"), { action: "decline" }, { action: "cancel" }]) {
      await using session = await server.session(() => answer);
      expect(await session.call("get_location")).toEqual(denied);
    }
    for (const answer of [decide("Deny"), { action: "decline" }, { action: "cancel" }]) {
      await using stateless = await server.stateless(() => answer);
      expect(await stateless.call("get_location")).toEqual(denied);
    }
  });

  it("Verify multi-tool calls execute correctly", async () => {
    const calls = [
      client.call("write_file", { path: "multi.txt", content: "x" }),
      client.call("http_request", { url: web.url("/hello") }),
      client.call("read_file", { path: "missing" }),
      client.call("misbehave", { how: "throw" }),
      client.call("get_current_time"),
    ];
    const outcomes = (await Promise.all(calls)).map(({ status }) => status);
    expect(outcomes).toEqual(["success", "success", "error", "error", "success"]);
  });

  it("Verify chained tool calls work (result of tool A triggers tool B)", async () => {
    const { body } = (await resultOf("http_request", { url: web.url("/hello") })) as { body: string };
    const { path } = (await resultOf("write_file", { path: "chained.txt", content: body })) as { path: string };
    expect(await resultOf("read_file", { path })).toBe("hello");
  });

  it("Verify tool definitions convert correctly for each provider (OpenAI, Anthropic, Gemini)", () => {
    const [, readFile] = builtIn;
    if (readFile === undefined) throw new Error("no tools");
    const { name, description, parameters } = readFile;
    expect(toOpenAi(builtIn)[1]).toEqual({ type: "function", function: { name, description, parameters } });
    expect(toAnthropic(builtIn)[1]).toEqual({ name, description, input_schema: parameters });
    expect(toGemini(builtIn)[0]?.functionDeclarations?.[1]).toEqual({ name, description, parametersJsonSchema: parameters });
  });

  it('Verify unavailable tool returns "not available" error', async () => {
    const unavailable = failure("validation_error", "Tool launch_rocket is not available");
    expect(await client.call("launch_rocket")).toEqual(unavailable);
    await using stateless = await server.stateless();
    expect(await stateless.call("launch_rocket")).toEqual(unavailable);
    await using limited = await ToolServer.start({ ONECLAW_TOOLS: "read_file" });
    await using agent = await limited.session();
    expect(await agent.names()).toEqual(["read_file"]);
    expect(await agent.call("write_file", { path: "a", content: "" })).toEqual(
      failure("validation_error", "Tool write_file is not available"),
    );
  });

  it("Verify invalid parameters return validation error", async () => {
    const cases = [
      ["read_file", { path: 1 }, "path must be string"],
      ["read_file", { path: "a", paht: "b" }, 'The arguments must NOT have additional properties: "paht"'],
      ["write_file", { path: "a" }, "The arguments must have required property 'content'"],
      ["write_file", { path: "a", content: "", mode: "w" }, 'mode must be equal to one of the allowed values: ["overwrite","append"]'],
      ["http_request", { url: "http://a", headers: { a: 1 } }, "headers/a must be string"],
      ["get_current_time", { format: "RFC2822" }, 'format must be equal to one of the allowed values: ["ISO8601","human_readable"]'],
    ] as const;
    for (const [name, args, problem] of cases) {
      expect(await client.call(name, args)).toEqual(failure("validation_error", `Invalid arguments of ${name}: ${problem}`));
    }
  });
});
