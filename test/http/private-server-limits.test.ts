import { describe, expect, it } from "vitest";
import type { HttpReply } from "../support/http-client.ts";
import { readWhere } from "../support/fixture-server.ts";
import { LaneClient } from "../support/lane-client.ts";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";

const IDLE = ["--session-idle-timeout-ms", "1000"];

function initialize(sidecar: RunningSidecar): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest(ASKABLE));
}

function waitForServers(sidecar: RunningSidecar, count: number): Promise<number> {
  const started = (): number => sidecar.logLines.filter(({ msg }) => msg === "mcp server started").length;
  return sidecar.waitFor(() => (started() >= count ? started() : undefined), `${count} servers`);
}

async function waitForIdleEnds(sidecar: RunningSidecar, count: number): Promise<void> {
  const ends = (): number => sidecar.logLines.filter(({ msg, reason }) => msg === "session ended" && reason === "idle").length;
  await sidecar.waitFor(() => (ends() >= count ? count : undefined), `${count} idle sessions`);
}

describe.concurrent("--max-private-servers", () => {
  it("a place is free again after a failed initialize, and after many at once", async () => {
    const flags = ["--isolation", "session", "--max-private-servers", "2"];
    await using sidecar = await HttpBench.start({ mode: "refuse-clients", flags });
    const replies = await Promise.all(Array.from({ length: 10 }, () => initialize(sidecar)));
    // Clients that got a server received its error. Another client may get a place when the first server has failed.
    const relayed = replies.filter(({ status }) => status === 200).length;
    expect(relayed).toBeGreaterThanOrEqual(2);
    expect(replies.filter(({ status }) => status === 503)).toHaveLength(10 - relayed);
    expect(await waitForServers(sidecar, 1 + relayed)).toBe(1 + relayed);
    let { status } = await initialize(sidecar);
    while (status === 503) ({ status } = await initialize(sidecar));
    expect(status).toBe(200);
  });
});

describe("--session-idle-timeout-ms", () => {
  it.concurrent("an idle server ends, and the next request of its client starts another one", async () => {
    await using sidecar = await HttpBench.start({ flags: IDLE });
    const { childPid: sharedPid } = sidecar;
    const client = await LaneClient.connect(sidecar);
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(client.childPid);
    const { pid } = await readWhere(client);
    expect([client.childPid, sharedPid]).not.toContain(pid);
    await waitForIdleEnds(sidecar, 2);
  });

  it.concurrent("the end of an idle session is logged once, however long its server takes", async () => {
    await using sidecar = await HttpBench.start({ mode: "stubborn", flags: ["--session-idle-timeout-ms", "1500"] });
    const { pid } = await readWhere(await LaneClient.connectUninitialized(sidecar));
    await waitForIdleEnds(sidecar, 1);
    await groupEnd(pid);
    expect(sidecar.logLines.filter(({ msg }) => msg === "session ended")).toHaveLength(1);
  });
});
