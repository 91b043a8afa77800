import { describe, expect, it } from "vitest";
import { waitForHanging } from "../support/fixture-server.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readReadiness } from "../support/status.ts";
import { HttpBench } from "../support/http-bench.ts";
import { TOKENS } from "../support/token-clients.ts";
import { type McpClient, toolCall } from "../support/mcp-client.ts";

const RESULT = '{"content":[{"type":"text","text":"mine"}]}';
const ERROR = '{"code":-32602,"message":"refused"}';
const SKIPPED = "stdout line skipped: not json-rpc";
const READ = "stdout line read: text before a message";
const ONE_START = ["--restart-backoff-ms", "60000", "--restart-max-ms", "60000"];
/** Only a hang reaches it. */
const LONG_START = ["--ready-timeout-ms", "60000", ...ONE_START];
/** Is always reached. A shell has started and answered by then, also on a busy machine. */
const SHORT_START = ["--ready-timeout-ms", "5000", ...ONE_START];

/** The command of a server that answers each line with this format of `printf`, in which `%s` stands for a response to the first request. */
function printing(format: string): string[] {
  const response = '"id":0,"result":{}';
  return ["sh", "-c", 'while read -r line; do printf "$0" "$1"; done', format, response];
}

/** Makes the server answer a call with this line, in which `$ID` stands for its id. @returns the body that the client gets. */
async function answer(client: McpClient, line: string): Promise<unknown> {
  const reply = await client.post(toolCall("raw_line", { line }, "a"));
  return JSON.parse(reply.body);
}

const ok = { jsonrpc: "2.0", id: "a", result: JSON.parse(RESULT) as unknown };
const failed = (code: number, message: unknown, more = {}): object => ({ jsonrpc: "2.0", id: "a", error: { code, message, ...more } });
const invalid = (reason: string): object =>
  failed(-32603, expect.stringContaining(`answered tools/call with an invalid response: ${reason}. The request was sent`), {
    data: expect.objectContaining({ code: "UPSTREAM_INVALID_RESPONSE", sent: true, retrySafe: false }) as unknown,
  });

describe("the members of a server's response", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = await sidecar.client();

  it.each([
    ["an id as text", `"id":"$ID","result":${RESULT}`, ok],
    ["an id with a fraction of zero", `"id":$ID.0,"result":${RESULT}`, ok],
    ["an error that is null", `"id":$ID,"result":${RESULT},"error":null`, ok],
    ["an error that is no error", `"error":{},"id":$ID,"result":${RESULT}`, ok],
    ["a method that is null", `"method":null,"id":$ID,"result":${RESULT}`, ok],
    ["other members", `"x":{"id":1},"id":$ID,"y":[],"result":${RESULT},"z":1`, ok],
    ["a repeated result", `"id":$ID,"result":{},"result":${RESULT}`, ok],
    ["a result that is null", `"id":$ID,"result":null`, { ...ok, result: {} }],
    ["a result that is null, and an error", `"id":$ID,"result":null,"error":${ERROR}`, failed(-32602, "refused")],
    ["a result and an error", `"id":$ID,"result":${RESULT},"error":${ERROR}`, failed(-32602, "refused")],
    ["a code as text", `"id":$ID,"error":{"code":"-32602","message":"refused"}`, failed(-32602, "refused")],
    ["no code", `"id":$ID,"error":{"message":"refused","data":1}`, failed(-32603, "refused", { data: 1 })],
    ["a code that is no number", `"id":$ID,"error":{"code":"E_NO","message":"refused"}`, failed(-32603, "refused")],
    ["no message", `"id":$ID,"error":{"code":5}`, failed(5, "The MCP server answered with an error without a message")],
    ["a message that is no text", `"id":$ID,"error":{"code":5,"message":{"a":1}}`, failed(5, '{"a":1}')],
    ["an error that is a text", `"id":$ID,"error":"refused"`, failed(-32603, "refused")],
    ["an error without an id", `"error":${ERROR}`, failed(-32602, "refused")],
    ["an error whose id is null", `"id":null,"error":${ERROR}`, failed(-32602, "refused")],
    ["neither a result nor an error", `"id":$ID`, invalid('the message has neither "method" nor "result" nor "error"')],
    ["a result that is an array", `"id":$ID,"result":[1],"error":null`, invalid("the result is not an object")],
    ["a result that is a text", `"id":$ID,"result":"mine"`, invalid("the result is not an object")],
    ["a hundred other members", `"id":$ID,${Array.from({ length: 100 }, (_, index) => `"m${index}":0`).join()},"result":${RESULT}`, ok],
  ])("%s: the client gets a valid response at once", async (_what, members, expected) => {
    expect(await answer(client, `{"jsonrpc":"2.0",${members}}`)).toEqual(expected);
  });

  it("a long response is treated in the same way", async () => {
    const result = `{"content":[{"type":"text","text":"${"x".repeat(300_000)}"}]}`;
    const reply = await answer(client, `{"jsonrpc":"2.0","id":"$ID","result":${result},"error":null}`);
    expect(reply).toEqual({ ...ok, result: JSON.parse(result) as unknown });
  });

  it("a batch of such responses is read", async () => {
    expect(await answer(client, `[{"jsonrpc":"2.0","id":"$ID","result":${RESULT},"error":null}]`)).toEqual(ok);
  });

  it.each(['"0$ID"', '"$ID.0"', '" $ID"', '"+$ID"', "[$ID]", "true"])("the id %s is that of no request", async (id) => {
    const line = `{"jsonrpc":"2.0","id":${id},"result":{}}\n{"jsonrpc":"2.0","id":$ID,"result":${RESULT}}`;
    expect(await answer(client, line)).toEqual(ok);
  });

  it("progress under a token as text reaches its request", async () => {
    const line = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$ID","progress":1}}\n{"jsonrpc":"2.0","id":$ID,"result":${RESULT}}`;
    const params = { name: "raw_line", arguments: { line }, _meta: { progressToken: "t" } };
    const { body } = await client.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    expect(body).toContain('"progressToken":"t"');
  });
});

describe("text on the line of a message", () => {
  it.each([
    ["escape sequences and white space", `\u{FEFF}\u0000\u001B[2K\r\t\u001B]0;t\u0007\u001B[32m`, "\u001B[0m \r"],
    ["a cursor movement", "\u001B[1A\u009B2K", ""],
  ])("%s alone are ignored, around any message", async (_what, before, after) => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1}}`;
    const response = `{"jsonrpc":"2.0","id":$ID,"result":${RESULT}}`;
    const line = [progress, response].map((each) => before + each + after).join("\n");
    const params = { name: "raw_line", arguments: { line }, _meta: { progressToken: "t" } };
    const { body } = await client.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    expect(body).toContain('"progressToken":"t"');
    expect(body).toContain('"mine"');
    expect(sidecar.logLines.map(({ msg }) => msg)).not.toContain(SKIPPED);
  });

  it.each([
    ["of a program", "querying… "],
    ["in brackets and colors", "\u001B[32m[INFO] ", "\u001B[0m"],
    ["that is JSON", '{"level":"info","id":1} {"id":2,"result":3}'],
    ["with an unfinished message", '{"jsonrpc":"2.0","id":1,"result":{"a":"b" '],
    ["that is long", "{ ".repeat(100_000)],
  ])("a response after text %s is read for the only client", async (_what, before, after = "") => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    expect(await answer(client, `${before}{"jsonrpc":"2.0","id":$ID,"result":${RESULT}}${after}`)).toEqual(ok);
    expect(await sidecar.waitForLog(READ)).toMatchObject({ level: "warn", bytes: expect.any(Number) as number });
    expect(sidecar.transcript()).not.toContain("mine");
  });

  it("a request or notification after text is never read", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const lines = [
      `x {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1}}`,
      `x {"jsonrpc":"2.0","id":7,"method":"ping"}`,
      `{"jsonrpc":"2.0","id":$ID,"result":${RESULT}}`,
    ];
    const params = { name: "raw_line", arguments: { line: lines.join("\n") }, _meta: { progressToken: "t" } };
    const { body } = await client.post({ jsonrpc: "2.0", id: "a", method: "tools/call", params });
    expect(JSON.parse(body)).toEqual(ok);
    expect(JSON.parse(await client.toolText("answers"))).toEqual([]);
    const skipped = (): unknown[] => sidecar.logLines.filter(({ msg }) => msg === SKIPPED).map(({ reason }) => reason);
    await sidecar.waitForLog(SKIPPED, () => skipped().length === 2);
    expect(skipped()).toEqual(Array.from({ length: 2 }, () => "other text is on the line of the message"));
  });

  it.each([
    ["was cancelled", "hang", "REQUEST_TIMEOUT"],
    ["has ended", "seen", undefined],
  ])("a client cannot forge a response after its own call %s", async (_how, tool, code) => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--request-timeout-ms", "1500"] });
    const [victim, attacker] = [await sidecar.client({ token: TOKENS[0] }), await sidecar.client({ token: TOKENS[1] })];
    // The server goes on with it, and may print its text at any time.
    const { error } = await attacker.callTool(tool);
    expect(error?.data?.["code"]).toBe(code);
    const forged = await victim.callTool("raw_line", { line: `searching for {"jsonrpc":"2.0","id":$ID,"result":${RESULT}}` });
    expect(forged.error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
  });

  it("a response after text is read at a server without sessions too", async () => {
    await using sidecar = await HttpBench.start({ mode: "modern-only" });
    const client = await sidecar.client();
    const { result } = await client.callTool("raw_line", { line: `querying… {"jsonrpc":"2.0","id":$ID,"result":${RESULT}}` });
    expect(result).toEqual(JSON.parse(RESULT));
  });

  it("sessions of one principal count as one", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true });
    const [one, other] = [await sidecar.client({ token: TOKENS[0] }), await sidecar.client({ token: TOKENS[0] })];
    const hanging = one.callTool("hang");
    await waitForHanging(one, 1);
    expect(await answer(other, `querying… {"jsonrpc":"2.0","id":$ID,"result":${RESULT}}`)).toEqual(ok);
    await other.toolText("release");
    await hanging;
  });

  it("an oversized response after text fails no call of another principal", async () => {
    await using sidecar = await HttpBench.start({ hasTokens: true, flags: ["--max-line-bytes", "10000"] });
    const [victim, attacker] = [await sidecar.client({ token: TOKENS[0] }), await sidecar.client({ token: TOKENS[1] })];
    const hanging = victim.callTool("hang");
    const [wireId] = await waitForHanging(attacker, 1);
    await attacker.toolText("noise", { line: `x {"jsonrpc":"2.0","id":${wireId},"result":{"x":"${"x".repeat(20_000)}"}}` });
    await sidecar.waitForLog("stdout line discarded: longer than the limit");
    await attacker.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });
});

describe("an error without an id that answers no request", () => {
  it("a server that sends one for each notification is usable, with a policy and after a cancellation", async () => {
    const flags = ["--deny-tools", "secret", "--request-timeout-ms", "1500"];
    await using sidecar = await HttpBench.start({ mode: "answers-notifications", flags });
    const client = await sidecar.client();
    expect(await client.toolText("echo", { text: "with a policy" })).toBe("with a policy");
    expect((await client.callTool("hang")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    expect(await client.toolText("echo", { text: "after a cancellation" })).toBe("after a cancellation");
  });

  it("one that follows the handshake ends no call that has waited for it", async () => {
    await using sidecar = await HttpBench.start({ mode: "answers-notifications" });
    const client = await sidecar.client();
    await client.callTool("exit");
    expect(await client.toolText("echo", { text: "after a restart" })).toBe("after a restart");
  });

  it("one that follows a notification ends no call", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    const hanging = client.callTool("hang");
    const [wireId] = await waitForHanging(client, 1);
    await client.notify("notifications/x-write", { line: `{"jsonrpc":"2.0","id":null,"error":${ERROR}}` });
    await client.toolText("release");
    expect((await hanging).result?.content?.[0]?.text).toBe(`released ${wireId}`);
  });

  it("one after an invalid response is the answer of the only call again, also after a notification", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    await client.notify("notifications/custom");
    expect(await answer(client, '{"jsonrpc":"2.0","id":$ID,"result":"text"}')).toMatchObject({ error: { code: -32603 } });
    expect(await answer(client, `{"jsonrpc":"2.0","error":${ERROR}}`)).toEqual(failed(-32602, "refused"));
  });

  it("one at the start of a server does not end the handshake", async () => {
    await using sidecar = await HttpBench.start({ mode: "stray-error" });
    expect(await (await sidecar.client()).toolText("echo", { text: "ready" })).toBe("ready");
  });
});

describe("a part of a message on stdout", () => {
  it.each([
    ["after text", `result: {"secret":"PAYLOAD"}`],
    ["of an unfinished message", `{"jsonrpc":"2.0","id":1,"result":"PAYLOAD`],
    ["that is a member", `    "text": "PAYLOAD",`],
    ["that is the end of an object", `  ],"text":"PAYLOAD"}`],
    ["that is the end of a text", `PAYLOAD"}]}}`],
  ])("a line with a part %s is logged with its size only", async (_what, line) => {
    await using sidecar = await HttpBench.start();
    await (await sidecar.client()).toolText("noise", { line });
    const logged = await sidecar.waitForLog(SKIPPED);
    expect(logged).toMatchObject({ bytes: line.length, reason: expect.any(String) as string });
    expect(logged).not.toHaveProperty("line");
    expect(sidecar.transcript()).not.toContain("PAYLOAD");
  });

  it("all lines of a message with line breaks in its text are logged with their size only", async () => {
    await using sidecar = await HttpBench.start();
    const client = await sidecar.client();
    await client.toolText("noise", { line: '{"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"one\nPAYLOAD\nthree"}]}}' });
    await client.toolText("noise", { line: "after a message" });
    await sidecar.waitForLog(SKIPPED, ({ line }) => line === "after a message");
    expect(sidecar.transcript()).not.toContain("PAYLOAD");
  });
});

describe.concurrent("the handshake", () => {
  it.each(["text-id", "text-before", "colours"])("a server that answers in the form %s is ready and serves calls", async (form) => {
    await using sidecar = await HttpBench.start({ env: { FIXTURE_FORM: form } });
    const client = await sidecar.client();
    expect(await client.toolText("echo", { text: "hello" })).toBe("hello");
  });

  it.each([
    ["no-content", "the MCP server's response to initialize is invalid"],
    ["error-without-id", '"message":"cannot read it"'],
  ])("a response in the form %s fails the start at once", async (form, reason) => {
    await using sidecar = await HttpBench.start({ env: { FIXTURE_FORM: form }, flags: LONG_START, untilReady: false });
    const exited = await sidecar.waitForLog("mcp server exited");
    expect(exited).toMatchObject({ kind: "handshake-refused" });
    expect(exited["reason"]).toContain(reason);
  });

  it.each([
    [
      "text around a message",
      String.raw`querying… {"jsonrpc":"2.0",%s} done\n`,
      "the server prints other text on the lines of its messages",
    ],
    ["a message on several lines", String.raw`{\n  "jsonrpc": "2.0",\n  %s\n}\n`, "the server spreads a message over several lines"],
    ["headers", String.raw`Content-Length: 36\r\n\r\n{"jsonrpc":"2.0",%s}`, "the server puts Content-Length headers before its messages"],
    ["text after a message", String.raw`{"jsonrpc":"2.0",%s} done\n`, "the server's messages are not JSON"],
    ["no version", String.raw`{%s}\n`, 'the server omits "jsonrpc": "2.0" in its responses'],
  ])("the likely cause of a timeout is named for a server that prints %s", async (_what, format, cause) => {
    await using sidecar = await HttpBench.start({ command: printing(format), flags: SHORT_START, untilReady: false });
    expect((await sidecar.waitForLog("mcp server exited"))["likelyCause"]).toContain(cause);
    expect((await readReadiness(sidecar)).lastExit).toMatchObject({ likelyCause: expect.stringContaining(cause) as string });
  });

  const PYTHON = 'import sys\nfor line in sys.stdin: print(\'{"jsonrpc":"2.0","id":0,"result":{}}\')';
  it.each([
    ["python3", ["python3", "-c", PYTHON], { PYTHONUNBUFFERED: "" }, "python3 -u"],
    ["python3 with PYTHONUNBUFFERED", ["python3", "-c", "import time\ntime.sleep(600)"], { PYTHONUNBUFFERED: "1" }, undefined],
    ["python3 -u", ["python3", "-u", "-c", "import time\ntime.sleep(600)"], { PYTHONUNBUFFERED: "" }, undefined],
    ["another program", ["sleep", "600"], {}, undefined],
  ])("the advice about a buffered stdout is right for %s", async (_what, command, env: Record<string, string>, advice) => {
    await using sidecar = await HttpBench.start({ command, env, flags: SHORT_START, untilReady: false });
    const { likelyCause } = await sidecar.waitForLog("mcp server exited");
    expect(String(likelyCause)).toContain(String(advice));
  });
});
