import { describe, expect, it } from "vitest";
import { QUICK_RESTART, timeoutFlags } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { LANES, useLane } from "../support/lane-client.ts";
import { readReadiness } from "../support/status.ts";
import { Supervised } from "../support/supervised.ts";

const REQUEST_TIMEOUT_MS = 3000;

describe.concurrent.each(LANES)("an unresponsive %s server", (kind) => {
  it("calls whose clients give up before their time reveal it too", async () => {
    const limits = ["--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, ...limits] });
    const { client, childPid, waitForLog } = await useLane(sidecar, kind);
    signalServer(childPid, "SIGSTOP");
    const over = new AbortController();
    const exited = waitForLog("mcp server exited").finally(() => over.abort());
    while (!over.signal.aborted) await client.callTool("echo", {}, 2, { signal: AbortSignal.timeout(500) }).catch(() => undefined);
    expect(await exited).toMatchObject({ kind: "hung", childPid });
  });
});

describe.concurrent("a server without sessions", () => {
  it("a discovery without an answer after a timeout restarts the server", async () => {
    const flags = [...QUICK_RESTART, "--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ mode: "modern-only", flags });
    const client = sidecar.modernClient();
    signalServer(sidecar.childPid, "SIGSTOP");
    expect((await client.callTool("echo")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const reason = "hung: no output while tools/call timed out, nor for 3 s after server/discover";
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
  });
});

describe.concurrent("a server that does not read", () => {
  it("a server that reads no ping and writes nothing is restarted", async () => {
    const flags = [...QUICK_RESTART, "--request-timeout-ms", String(REQUEST_TIMEOUT_MS), "--hung-timeouts", "1"];
    await using sidecar = await HttpBench.start({ flags });
    const client = await sidecar.client();
    await client.toolText("stop_reading");
    const stuck = await Promise.all([1, 2, 3].map((id) => client.callTool("echo", { padding: "p".repeat(300_000) }, id)));
    for (const { error } of stuck) expect(error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    const reason = "hung: no output while tools/call timed out, and no input read for 3 s";
    expect(await sidecar.waitForLog("mcp server exited")).toMatchObject({ kind: "hung", reason });
  });
});

describe.concurrent("a blocked server", () => {
  it("a blocked server exits by SIGTERM, and readiness reports it", async () => {
    await using sidecar = await HttpBench.start({ flags: [...QUICK_RESTART, "--hung-timeouts", "1", ...timeoutFlags(1000)] });
    const client = await sidecar.client();
    expect((await client.callTool("block")).error?.data?.["code"]).toBe("REQUEST_TIMEOUT");
    await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
    expect((await readReadiness(sidecar)).lastExit).toMatchObject({ generation: 1, kind: "hung", exitCode: null, signal: "SIGTERM" });
  });
});

const RESULT = '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}';
/** Completes the handshake, and sends a last message when it is terminated. */
const TALKS_AT_ITS_END = `
  trap 'echo "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":\\"late\\",\\"method\\":\\"roots/list\\"}"; sleep 0.3; exit 0' TERM
  read initialize
  echo '{"jsonrpc":"2.0","id":0,"result":${RESULT}}'
  echo '{"jsonrpc":"2.0","method":"notifications/early"}'
  while :; do sleep 0.05; done
`;

it("messages of an unresponsive server are dropped once its restart begins", async () => {
  await using supervised = new Supervised("sh", ["-c", TALKS_AT_ITS_END], 1);
  await supervised.nextReady();
  await expect.poll(() => supervised.messages).not.toEqual([]);
  supervised.supervisor.restart("hung", "hung: for a test");
  await supervised.nextReady();
  expect(supervised.exits).toMatchObject([{ generation: 1, kind: "hung", reason: "hung: for a test" }]);
  expect(supervised.supervisor.status()).toMatchObject({ generation: 2, lastExit: { kind: "hung", exitCode: 0 } });
  expect([...new Set(supervised.messages)]).toEqual(['{"jsonrpc":"2.0","method":"notifications/early"}']);
});

it("messages are dropped after the exit of the process that started the server", async () => {
  await using supervised = new Supervised("sh", ["-c", `exec 3<&0; sh -c "$0" <&3 & wait`, TALKS_AT_ITS_END], 1);
  await supervised.nextReady();
  process.kill(supervised.supervisor.status().pid ?? 0, "SIGKILL");
  await supervised.nextReady();
  expect(supervised.exits).toMatchObject([{ generation: 1, kind: "signal", signal: "SIGKILL" }]);
  expect([...new Set(supervised.messages)]).toEqual(['{"jsonrpc":"2.0","method":"notifications/early"}']);
});
