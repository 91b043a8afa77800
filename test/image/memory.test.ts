import { expect, it } from "vitest";
import { Container, docker } from "../support/container.ts";
import { send } from "../support/http-client.ts";
import { readResponse } from "../support/json-rpc.ts";
import { McpClient } from "../support/mcp-client.ts";

const SERVER = "/fixtures/python_server.py";
/** Node names its main thread. */
const SIDECAR = "node-MainThread";
const MEGABYTE = 1_000_000;
/** Results, each as large as a body but of at most 1 MB, that are asked for at once. */
const RESULTS = 8;
/** Bodies that are sent at once: more than the container can hold, so many of them get 503. */
const FLOODS = [
  { limit: "64m", count: 16, bytes: 0.4 * MEGABYTE },
  { limit: "128m", count: 32, bytes: MEGABYTE },
  { limit: "512m", count: 40, bytes: 4 * MEGABYTE },
];
const ROUNDS = 2;
/** An error of the sidecar that a client may get instead of a result: it says whether the call was sent, and what to do. */
const CLEAN_ERROR = { code: expect.any(String) as string, sent: expect.any(Boolean) as boolean, action: expect.any(String) as string };

function startIn(limit: string, command: readonly string[]): Promise<Container> {
  return Container.startReady({ args: command, flags: ["--memory", limit, "--memory-swap", limit] });
}

/** Calls a tool. @returns "result", or the code of the sidecar's error. @throws if the connection breaks, or the error is not clean. */
async function outcome(client: McpClient, name: string, args: object): Promise<string> {
  const reply = await client.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } });
  const { result, error } = readResponse(reply);
  if (result !== undefined) return "result";
  expect(error?.data).toMatchObject(CLEAN_ERROR);
  return String(error?.data?.["code"]);
}

async function peakBytes(container: Container): Promise<number> {
  const files = ["/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes"];
  return Number(await container.exec("sh", "-c", `cat ${files.join(" ")} 2>/dev/null || true`));
}

it.each(FLOODS)("the sidecar survives large results and $count bodies of $bytes bytes in $limit", async ({ limit, count, bytes }) => {
  await using container = await startIn(limit, ["python3", SERVER]);
  const client = await new McpClient(container.url).open();
  for (let call = 0; call < 20; call++) expect(await client.toolText("length", { text: "x".repeat(call) })).toBe(String(call));
  const results = await Promise.all(Array.from({ length: RESULTS }, () => outcome(client, "big", { length: Math.min(bytes, MEGABYTE) })));
  const text = "x".repeat(bytes);
  const bodies: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    bodies.push(...(await Promise.all(Array.from({ length: count }, () => outcome(client, "length", { text })))));
  }
  const peak = ((await peakBytes(container)) / MEGABYTE).toFixed(0);
  console.log(`peak in ${limit}: ${peak} MB; outcomes: ${[...new Set([...results, ...bodies])].join(", ")}`);
  // The container ends with the sidecar: tini has no other child.
  expect(await docker("inspect", "--format", "{{.State.Running}}", container.id)).toBe("true");
  expect((await send(`${container.origin}/livez`, { method: "GET" })).status).toBe(200);
  // Sessions do not outlive the sidecar.
  expect(await client.toolText("length", { text: "after" })).toBe("5");
});

it.each([
  { how: "directly", command: ["python3", SERVER] },
  { how: "by a shell", command: ["sh", "-c", `python3 ${SERVER}; exit $?`] },
])("a server, started $how, that the kernel kills for memory is reported and restarted", async ({ command }) => {
  await using container = await startIn("128m", command);
  const client = await new McpClient(container.url).open();
  const { error } = await client.callTool("allocate");
  expect(error?.data).toMatchObject({ code: "UPSTREAM_EXITED", sent: true });
  expect(error?.message).toContain("the kernel killed it for lack of memory");
  await container.waitForLog("mcp server exited", ({ kind }) => kind === "out-of-memory");
  await container.waitForLog("mcp server ready", ({ generation }) => generation === 2);
  expect(await client.toolText("length", { text: "again" })).toBe("5");
  const { body } = await send(`${container.origin}/readyz`, { method: "GET" });
  expect(JSON.parse(body)).toMatchObject({ status: "ready", lastExit: { generation: 1, kind: "out-of-memory" } });
});

it("V8's heap fits the container, and the kernel prefers the server and its children to the sidecar", async () => {
  await using container = await startIn("128m", ["sh", "-c", `sleep 1000 & python3 ${SERVER}; exit $?`]);
  const sidecar = (await container.processes()).find(({ name }) => name === SIDECAR);
  const commandLine = await container.exec("cat", `/proc/${sidecar?.pid}/cmdline`);
  expect(commandLine.split("\0").slice(1, 3)).toEqual(["--max-semi-space-size=2", "--max-old-space-size=64"]);

  const scores = await container.exec("sh", "-c", "for p in /proc/[0-9]*; do echo $(cat $p/comm) $(cat $p/oom_score_adj); done");
  const scoreOf = (name: string): number => Number(new RegExp(`^${name} (-?\\d+)$`, "m").exec(scores)?.[1]);
  const [own = 0, ...others] = [SIDECAR, "python3", "sleep"].map((name) => scoreOf(name));
  expect(others).toEqual(others.map(() => Math.min(1000, own + 1000)));
});
