import { describe, expect, it } from "vitest";
import { errorData, errorReply, readError } from "../support/error-reply.ts";
import { crash, crashProcess, QUICK_RESTART, readSeen, readWhere, timeoutFlags } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import { type JsonRpcMessage, readResponse } from "../support/json-rpc.ts";
import { LANE_CLIENTS, type LaneClient } from "../support/lane-client.ts";
import { calledNames, listedNames, listedTool, type ListedTool, ListedTools, WITNESSES } from "../support/listed-tools.ts";
import type { McpClient } from "../support/mcp-client.ts";
import type { RunningSidecar, StartOptions, LogLine } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { signalServer } from "../support/in-process-server.ts";

const DENY = ["--deny-tools", "secret_*"];
/** As long as the hidden tool's name, so that responses have the same length. */
const [HIDDEN, NEVER_WAS] = ["secret_tool", "no_such_one"];
const PAGES = [
  [...WITNESSES, listedTool("secret_first")],
  [listedTool(HIDDEN), listedTool("search"), listedTool("read_file")],
  [listedTool("secret_last")],
];

function start(listed: ListedTools, flags: readonly string[], options: StartOptions = {}): Promise<RunningSidecar> {
  return HttpBench.start({ ...options, flags: [...QUICK_RESTART, ...flags], env: { ...listed.env, ...options.env } });
}

function call(name: unknown, id: string | number = 2): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: { a: 1 } } };
}

function shapeOf({ status, headers, body }: HttpReply, name: string): object {
  return { status, headers: { ...headers, date: "" }, body: body.replaceAll(name, "NAME") };
}

async function expectHidden(client: McpClient): Promise<string> {
  const [hidden, never] = [await client.post(call(HIDDEN)), await client.post(call(NEVER_WAS))];
  expect(hidden.body).toContain(HIDDEN);
  expect(shapeOf(hidden, HIDDEN)).toEqual(shapeOf(never, NEVER_WAS));
  return hidden.body;
}

/** Makes the server announce other tools. Returns when the sidecar has read them. */
async function changeTools(client: LaneClient, listed: ListedTools, ...pages: readonly (readonly ListedTool[])[]): Promise<void> {
  const countLists = async (): Promise<number> => (await readSeen(client)).filter((method) => method === "tools/list").length;
  const before = await countLists();
  await listed.list(...pages);
  await client.write({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  while ((await countLists()) < before + pages.length);
}

describe.each(LANE_CLIENTS)("a hidden tool in a $lane lane", ({ connect }) => {
  it("tools/list omits a hidden tool on every page, and is otherwise unchanged", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    expect(await listedNames(client)).toEqual([WITNESSES.map(({ name }) => name), ["search", "read_file"], []]);
    const { body } = await client.post({ jsonrpc: "2.0", id: "p", method: "tools/list", params: { cursor: "1" } });
    expect(body).toBe(JSON.stringify({ jsonrpc: "2.0", id: "p", result: { tools: PAGES[1]?.slice(1), nextCursor: "2" } }));
  });

  it("a hidden tool's call gets an unknown tool's response, and never reaches the server", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    const { error } = JSON.parse(await expectHidden(client)) as JsonRpcMessage;
    expect(error).toMatchObject({ code: -32602, data: errorData("TOOL_NOT_FOUND", { sent: false, retrySafe: true }) });
    expect(await client.toolText("search", { q: 1 })).toBe('{"q":1}');
    expect((await calledNames(client)).filter((name) => name !== "where")).toEqual(["search", "lines"]);
  });

  it("a tool stays hidden after a restart, also from calls that were held meanwhile", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    const { pid } = await readWhere(client);
    await crashProcess(sidecar, pid);
    const [hidden, never, seen] = await Promise.all([client.post(call(HIDDEN)), client.post(call(NEVER_WAS)), client.callTool("search")]);
    expect(shapeOf(hidden, HIDDEN)).toEqual(shapeOf(never, NEVER_WAS));
    expect([seen.result, JSON.parse(hidden.body)]).toMatchObject([{ content: [{}] }, { error: { data: { code: "TOOL_NOT_FOUND" } } }]);
    await expectHidden(client);
    expect(await calledNames(client)).toEqual(["search", "lines"]);
    expect((await listedNames(client)).flat()).not.toContain(HIDDEN);
  });

  it("a tool stays hidden, and a new one is hidden at once, after list_changed", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    await changeTools(client, listed, [...WITNESSES, listedTool("added"), listedTool(HIDDEN)], [listedTool("secret_new")]);
    expect(await client.toolText("added", { n: 1 })).toBe('{"n":1}');
    await expectHidden(client);
    expect(await listedNames(client)).toEqual([[...WITNESSES.map(({ name }) => name), "added"], []]);
    // The response for a removed tool is that for an unknown one.
    const [gone, never] = [await client.post(call("search")), await client.post(call("absent"))];
    expect(shapeOf(gone, "search")).toEqual(shapeOf(never, "absent"));
    expect(await calledNames(client)).not.toContain(HIDDEN);
  });

  it("a hidden tool cannot be called by a message that servers could read differently", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    for (const params of [
      `{"name":"search","name":"${HIDDEN}"}`,
      `{"name":"${HIDDEN}","name":"search"}`,
      `{"name":"search","Name":"${HIDDEN}"}`,
      `{"name":"search","\\u004eame":"${HIDDEN}"}`,
      `{"name":"search","arguments":{},"argument\u017f":{}}`,
    ]) {
      const { status, body } = await client.post(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":${params}}`);
      expect([status, JSON.parse(body)]).toMatchObject([400, { id: 5, error: { code: -32600, data: { code: "INVALID_REQUEST" } } }]);
    }
    expect((await client.post(call([HIDDEN]))).body).toContain("TOOL_NOT_FOUND");
    expect((await client.request("tools/call")).error?.data).toMatchObject({ code: "TOOL_NOT_FOUND" });
    expect((await calledNames(client)).filter((name) => name !== "where")).toEqual(["lines"]);
  });

  it("a hidden tool cannot be called by a message without an id", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await connect(sidecar);
    for (const name of [HIDDEN, "search"]) {
      const reply = await client.post({ jsonrpc: "2.0", method: "tools/call", params: { name, arguments: {} } });
      expect(readError(reply)).toStrictEqual(errorReply(400, -32600, "INVALID_REQUEST", { data: { sent: false } }));
    }
    await client.notify("notifications/x");
    expect(await readSeen(client)).toContain("notifications/x");
    expect((await calledNames(client)).filter((name) => name !== "where")).toEqual(["seen", "lines"]);
  });
});

describe("a hidden tool", () => {
  it("a batch gets an unknown tool's response for the hidden tool, and other results", async () => {
    await using listed = await ListedTools.create(...PAGES);
    await using sidecar = await start(listed, DENY);
    const client = await sidecar.client({ protocolVersion: "2025-03-26" });
    const { status, body } = await client.post([
      call(HIDDEN, "h"),
      call("search", "s"),
      call(NEVER_WAS, "n"),
      { jsonrpc: "2.0", id: "l", method: "tools/list" },
    ]);
    const byId = new Map((JSON.parse(body) as JsonRpcMessage[]).map((response) => [response.id, response]));
    const textOf = (id: string): string => JSON.stringify({ ...byId.get(id), id: "" });
    expect([status, byId.size, byId.get("s")?.result]).toMatchObject([200, 4, { content: [{ text: '{"a":1}' }] }]);
    expect(textOf("h").replaceAll(HIDDEN, "NAME")).toBe(textOf("n").replaceAll(NEVER_WAS, "NAME"));
    expect(textOf("l")).not.toContain("secret");
    expect(await calledNames(client)).toEqual(["search", "lines"]);
  });

  it("a hidden tool is on no page that the next server returns after a restart", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("mute"), listedTool(HIDDEN)]);
    await using sidecar = await start(listed, [...DENY, "--stream-after-ms", "1"]);
    const client = await sidecar.client();
    const before = (await readSeen(client)).length;
    await client.callTool("mute", { method: "tools/list" });
    const answer = client.post({ jsonrpc: "2.0", id: "l", method: "tools/list" });
    while (!(await readSeen(client)).slice(before).includes("tools/list"));
    while ((await readStatus(sidecar)).openStreams === 0);
    await crash(sidecar);
    const reply = await answer;
    expect(reply.headers["content-type"]).toBe("text/event-stream");
    const { result } = readResponse(reply);
    expect(result).toEqual({ tools: [...WITNESSES, listedTool("mute")] });
    expect(reply.body).not.toContain(HIDDEN);
  });

  it("limits for a hidden tool do not reveal it", async () => {
    await using listed = await ListedTools.create(...PAGES);
    const limits = ["--tool-calls-per-minute", `${HIDDEN}=1`, "--tool-concurrency", `${HIDDEN}=1`, "--tool-timeouts-ms", `${HIDDEN}=1`];
    await using sidecar = await start(listed, [...DENY, ...limits]);
    const client = await sidecar.client();
    // Only the list makes the hidden tools known.
    await listedNames(client);
    for (let count = 0; count < 3; count++) expect(await expectHidden(client)).toContain("TOOL_NOT_FOUND");
  });
});

describe("messages outside the tool filter", () => {
  it("other methods, errors and calls of visible tools are forwarded unchanged", async () => {
    await using listed = await ListedTools.create([listedTool("received"), listedTool("refuse"), listedTool(HIDDEN)]);
    await using sidecar = await start(listed, DENY);
    const client = await sidecar.client();
    for (const method of ["prompts/list", "resources/read", "x/unknown", "tools/call/x", "Tools/List"]) {
      expect((await client.request(method, { name: HIDDEN })).result).toEqual({ method, params: { name: HIDDEN } });
    }
    const line = `{"jsonrpc":"2.0","params": {"arguments":{"n":1.0,"s":"\\u0041"},"name":"received"},"method":"tools/call","id":0}`;
    const reply = JSON.parse((await client.post(line)).body) as JsonRpcMessage;
    const received = reply.result?.content?.[0]?.text ?? "";
    expect(received.replace(/"id":\d+/, '"id":0')).toBe(line);
    await client.callTool("refuse", { method: "tools/list" });
    expect(await client.request("tools/list")).toMatchObject({ error: { code: -32602, message: "refused" } });
  });
});

const READ_ONLY = ["--read-only"];
const READS = { readOnlyHint: true };
const NOT_FOUND = { error: { code: -32602, data: { code: "TOOL_NOT_FOUND", sent: false } } };

describe.each(LANE_CLIENTS)("a tool of a $lane server in read-only mode", ({ connect }) => {
  it("a tool is listed and callable only if its server marks it as read-only", async () => {
    const tools = [
      listedTool("hint", READS),
      listedTool("pod", { readOnly: true }),
      listedTool("destroys", { readOnlyHint: true, destructiveHint: true }),
      listedTool("unmarked"),
      listedTool("empty", {}),
      listedTool("writes", { readOnlyHint: false, destructiveHint: false }),
      listedTool("contradicts", { readOnlyHint: true, readOnly: false }),
      listedTool("denies", { readOnlyHint: false, readOnly: true }),
      listedTool("none", null),
      listedTool("text", { readOnlyHint: "true" }),
      { ...listedTool("elsewhere"), readOnlyHint: true, _meta: READS },
    ];
    await using listed = await ListedTools.create(WITNESSES, tools);
    await using sidecar = await start(listed, READ_ONLY);
    const client = await connect(sidecar);
    const [, names = []] = await listedNames(client);
    // The specification gives destructiveHint a meaning only if readOnlyHint is false.
    expect(names).toEqual(["hint", "pod", "destroys"]);
    for (const { name } of tools) {
      const reply = await client.callTool(name, { n: 1 });
      expect(reply).toMatchObject(names.includes(name) ? { result: { content: [{ text: '{"n":1}' }] } } : NOT_FOUND);
    }
    expect((await readSeen(client)).filter((method) => method === "tools/call").length).toBeLessThanOrEqual(names.length + 2);
  });

  it("a tool that is no longer read-only becomes hidden, after list_changed or a restart", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("first", READS), listedTool("second", READS)]);
    await using sidecar = await start(listed, READ_ONLY);
    const client = await connect(sidecar);
    expect(await client.toolText("first")).toBe("{}");

    await changeTools(client, listed, [...WITNESSES, listedTool("first"), listedTool("second", READS), listedTool("third", READS)]);
    expect(await client.callTool("first")).toMatchObject(NOT_FOUND);
    expect([await client.toolText("second"), await client.toolText("third")]).toEqual(["{}", "{}"]);

    const { pid } = await readWhere(client);
    await listed.list([...WITNESSES, listedTool("first", READS), listedTool("second")]);
    await crashProcess(sidecar, pid);
    const [first, second, third] = await Promise.all(["first", "second", "third"].map((name) => client.callTool(name)));
    expect([first?.result?.content?.[0]?.text, second, third]).toMatchObject(["{}", NOT_FOUND, NOT_FOUND]);
    expect(await listedNames(client)).toEqual([[...WITNESSES.map(({ name }) => name), "first"]]);
  });
});

describe("read-only mode", () => {
  it("read-only mode is off by default, and servers are then not asked for tools", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("write")]);
    await using sidecar = await start(listed, []);
    const client = await sidecar.client();
    expect(await client.toolText("write")).toBe("{}");
    expect(await readSeen(client)).not.toContain("tools/list");
  });
});

describe("the first list of a server", () => {
  const LIST_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';

  async function health(sidecar: RunningSidecar): Promise<object> {
    const response = await fetch(`${sidecar.origin}/healthz`);
    const { state } = (await response.json()) as { state: string };
    return { status: response.status, state };
  }

  /** More than the failed answers that restart a server. */
  const TIMEOUTS = 5;

  async function unansweredListings(sidecar: RunningSidecar): Promise<void> {
    const isListing = ({ msg, method }: LogLine): boolean => msg === "internal request failed" && method === "tools/list";
    await sidecar.waitFor(() => sidecar.logLines.filter(isListing)[TIMEOUTS - 1], `${TIMEOUTS} listings without an answer`);
  }

  function exits(sidecar: RunningSidecar): LogLine[] {
    return sidecar.logLines.filter(({ msg }) => msg === "mcp server exited");
  }

  it("the sidecar is not ready before the tools are listed", async () => {
    await using listed = await ListedTools.create([listedTool("search")]);
    await listed.fallSilent();
    await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret"], env: listed.env });
    expect(await health(sidecar)).toEqual({ status: 503, state: "starting" });
  });

  it("tools that exceed a limit of memory are not listed, and the reason names it", async () => {
    await using listed = await ListedTools.create([
      { name: "a", inputSchema: { type: "object", default: Array.from({ length: 900_000 }, () => ({})) } },
    ]);
    await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret"], env: listed.env });
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({
      kind: "tools-not-listed",
      reason: "tools/list did not return the tools: too many values: they could take more than 67108864 bytes of memory",
    });
  });

  it("a server that announces new tools, but does not list them, is restarted", async () => {
    await using listed = await ListedTools.create([...WITNESSES, listedTool("search")]);
    await using sidecar = await HttpBench.start({ flags: ["--deny-tools", "secret", "--restart-backoff-ms", "1"], env: listed.env });
    const client = await sidecar.client();
    expect(await client.toolText("search")).toBe("{}");
    await listed.refuse();
    await client.notify("notifications/x-write", { line: LIST_CHANGED });
    await sidecar.waitForLog("mcp server exited", ({ kind }) => kind === "tools-not-listed");
    await listed.list([...WITNESSES, listedTool("search")]);
    expect(await client.toolText("search")).toBe("{}");
  });

  it("a server that lists its tools late, but answers pings, is not restarted", async () => {
    await using listed = await ListedTools.create();
    await listed.fallSilent();
    const flags = [
      "--deny-tools",
      "secret",
      "--hung-timeouts",
      "1",
      "--hold-timeout-ms",
      "1000",
      ...timeoutFlags(1000, ["search", "where"]),
    ];
    await using sidecar = await HttpBench.start({ flags, env: listed.env });
    const client = await sidecar.client();
    const { error } = await client.callTool("search");
    expect(error?.data).toMatchObject({ code: "UPSTREAM_NOT_READY", sent: false });
    await unansweredListings(sidecar);
    await listed.list([...WITNESSES, listedTool("search")]);
    while ((await client.callTool("search")).error !== undefined);
    expect(exits(sidecar)).toEqual([]);
  });

  it("a server that answers neither the first listing nor a ping is restarted", async () => {
    await using listed = await ListedTools.create();
    await listed.fallSilent();
    const flags = ["--deny-tools", "secret", "--hung-timeouts", "2", "--request-timeout-ms", "1000"];
    await using sidecar = await HttpBench.start({ flags, env: listed.env });
    signalServer(sidecar.childPid, "SIGSTOP");
    const reason = "hung: no output while tools/list timed out, the last of 2 timeouts in a row, nor for 1 s after ping";
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
  });
});
