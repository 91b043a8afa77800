import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { failureOf } from "../support/failure.ts";
import { Gate } from "../support/gate.ts";
import { GatedCalls } from "../support/gated-calls.ts";
import { listedTool, ListedTools } from "../support/listed-tools.ts";
import { exitAndLogEnd } from "../support/log-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

const [FIRST, SECOND] = ["first-token-0123456789", "second-token-0123456789"];

describe("a request without a session that waits for its server", () => {
  it.each(["tools/call", "subscriptions/listen"])("%s is rejected if its token is removed meanwhile", async (method) => {
    await using directory = await TempDir.create();
    await using gate = await Gate.create();
    const file = directory.file("tokens");
    await writeFile(file, `${FIRST}\n${SECOND}\n`);
    await using sidecar = await HttpBench.start({ mode: "gated", env: gate.env, flags: ["--auth-token-file", file], untilReady: false });
    const params = method === "tools/call" ? { name: "echo", arguments: {} } : { notifications: {} };
    const waiting = sidecar.modernClient({ token: FIRST }).request(method, params);
    const headers = { Authorization: `Bearer ${SECOND}` };
    while ((await readStatus(sidecar, headers)).lanes.shared.waiting !== 1);
    await writeFile(file, `${SECOND}\n`);
    await sidecar.waitForLog("auth tokens reloaded");
    await gate.open();
    expect(failureOf(await waiting)).toEqual([401, -32603, "UNAUTHORIZED"]);
    expect((await readStatus(sidecar, headers)).stateless?.subscriptions).toBe(0);
  });

  it("the first one during the drain is rejected, and no second process starts", async () => {
    await using sidecar = await HttpBench.start({ mode: "dual", flags: ["--drain-timeout-ms", "20000"] });
    await using calls = await GatedCalls.create(sidecar);
    const last = calls.post(await sidecar.client(), "last");
    await calls.waitForReached(1);
    sidecar.kill("SIGTERM");
    await sidecar.waitForLog("stopping");
    for (const method of ["tools/list", "server/discover"]) {
      expect(failureOf(await sidecar.modernClient().request(method))).toEqual([503, -32603, "SHUTTING_DOWN"]);
    }
    await calls.letThrough("last");
    expect((await last).status).toBe(200);
    expect(await exitAndLogEnd(sidecar)).toBe(0);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });

  it("calls that wait for the list of tools count for the limit of their client", async () => {
    await using tools = await ListedTools.create([listedTool("echo")]);
    await tools.fallSilent();
    await using sidecar = await HttpBench.start({ env: tools.env, flags: ["--max-session-requests", "2", "--child-era", "legacy"] });
    const client = sidecar.modernClient();
    const calls = [1, 2, 3].map((id) => client.callTool("echo", {}, { id }));
    expect(failureOf(await Promise.race(calls))).toEqual([429, -32603, "SESSION_OVERLOADED"]);
    const statuses = (await Promise.all(calls)).map(({ status }) => status);
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
  });
});
