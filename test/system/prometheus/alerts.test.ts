import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { crash } from "../../support/fixture-server.ts";
import type { McpClient } from "../../support/mcp-client.ts";
import { OwnedResources } from "../../support/owned-resources.ts";
import { freePort } from "../../support/open-sockets.ts";
import { EXAMPLE, Sidecar } from "../../support/sidecar.ts";
import { dashboardQueries, nameOf, Prometheus } from "./prometheus.ts";

const MIB = 1024 * 1024;
const QUICK_RESTART = ["--restart-backoff-ms", "200", "--restart-max-ms", "200"];
const HANG = { name: "hang", arguments: {} };
/** The sidecars, each for one fault. */
const STARTS = {
  healthy: () => Sidecar.start({ command: [process.execPath, EXAMPLE] }),
  killed: () => Sidecar.start({ flags: QUICK_RESTART }),
  looping: () =>
    Sidecar.start({
      command: [process.execPath, "-e", "process.exit(1)"],
      flags: ["--restart-backoff-ms", "500", "--restart-max-ms", "500", "--keep-trying"],
      untilReady: false,
    }),
  unresponsive: () => Sidecar.start({ flags: [...QUICK_RESTART, "--hung-timeouts", "1", "--request-timeout-ms", "500"] }),
  full: () => Sidecar.start({ flags: ["--max-in-flight", "1", "--max-held-requests", "1"] }),
  greedy: () => Sidecar.start({ flags: ["--memory-budget-bytes", String(8 * MIB)] }),
} as const;
type Name = keyof typeof STARTS;

const owned = new OwnedResources();
let sidecars: Readonly<Record<Name, Sidecar>>;
let prometheus: Prometheus;
const stop = new AbortController();
let load: Promise<void>;

beforeAll(async () => {
  const started = await Promise.all(Object.entries(STARTS).map(async ([name, start]) => [name, owned.use(await start())] as const));
  sidecars = Object.fromEntries(started) as Record<Name, Sidecar>;
  const targets = Object.fromEntries(started.map(([name, { origin }]) => [name, new URL(origin).host]));
  prometheus = owned.use(await Prometheus.start({ ...targets, absent: `127.0.0.1:${await freePort()}` }));
  load = loadUntil(stop.signal, await sidecars.healthy.client());
  // An increase needs a value from before.
  await prometheus.waitFor("count_over_time(claw_mcp_stdio_build_info[1m]) >= 3", started.length);
});

afterAll(async () => {
  stop.abort();
  try {
    await load;
  } finally {
    await owned[Symbol.asyncDispose]();
  }
});

/** Calls tools, in a session after another. A few calls fail. */
async function loadUntil(signal: AbortSignal, client: McpClient): Promise<void> {
  await client.request("tools/list");
  for (let count = 0; !signal.aborted; count++) {
    for (let calls = 0; calls < 10; calls++) await client.request("tools/call", { name: "echo", arguments: { text: "load" } });
    if (count % 5 === 0) await client.request("tools/call", { name: "no_such_tool" });
    const other = await sidecars.healthy.client();
    await other.end();
    await delay(20);
  }
}

describe("a real Prometheus", () => {
  it("fires the alert of each fault, and none for a sidecar under load", async () => {
    await crash(sidecars.killed);
    const [unresponsive, full, greedy] = [
      await sidecars.unresponsive.client(),
      await sidecars.full.client(),
      await sidecars.greedy.client(),
    ];
    const hanging = Array.from({ length: 4 }, () => full.request("tools/call", HANG));
    hanging.push(unresponsive.request("tools/call", { ...HANG, name: "block" }));
    const padding = "x".repeat(MIB);
    hanging.push(...Array.from({ length: 8 }, () => greedy.request("tools/call", { ...HANG, arguments: { padding } })));
    await prometheus.waitForAlerts([
      "McpServerExited killed",
      "McpServerCrashLoop looping",
      "McpServerUnresponsive unresponsive",
      "McpQueueFull full",
      "McpMemoryBudgetUsedUp greedy",
      "McpSidecarDown absent",
    ]);
    expect((await prometheus.alerts()).map(nameOf).filter((name) => name.endsWith(" healthy"))).toEqual([]);
    // Their calls still wait.
    const { healthy: _, ...faulty } = sidecars;
    for (const each of Object.values(faulty)) await each.stop();
    await Promise.allSettled(hanging);
  });

  it("has data for each query of the dashboard", async () => {
    const empty: string[] = [];
    for (const query of await dashboardQueries()) if ((await prometheus.count(query)) === 0) empty.push(query);
    expect(empty).toEqual([]);
  });
});
