import { describe, expect, it } from "vitest";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { KEYED, RestartableSidecar, receivedInitializes } from "../support/restartable-sidecar.ts";
import type { LogLine } from "../support/sidecar.ts";
import type { ConnectOptions, ForeignClient, ForeignLibrary } from "./foreign-client.ts";
import { LIBRARIES } from "./libraries.ts";

const ELICITATION = {
  method: "elicitation/create",
  params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } },
};
const DECLINE = { result: { action: "decline" } };

interface Group {
  readonly modern: "on" | "off";
  readonly era: ForeignLibrary["era"];
  readonly libraries: readonly ForeignLibrary[];
}

/** Each library as it is, and with a sidecar that offers sessions only. One kill of the sidecar is for all of a group. */
const GROUPS: readonly Group[] = [
  { modern: "on", era: "sessions", libraries: LIBRARIES.filter(({ era }) => era === "sessions") },
  { modern: "on", era: "stateless", libraries: LIBRARIES.filter(({ era }) => era === "stateless") },
  { modern: "off", era: "sessions", libraries: LIBRARIES },
];

function start({ modern }: Group, env: Readonly<Record<string, string>> = {}): Promise<RestartableSidecar> {
  return RestartableSidecar.start({ flags: ["--request-log", "all", "--modern", modern], env: { ...KEYED, ...env } });
}

/** Connects a client of each library. */
function connectAll(
  owned: OwnedResources,
  libraries: readonly ForeignLibrary[],
  urlOf: (library: ForeignLibrary) => string | Promise<string>,
  options?: ConnectOptions,
): Promise<[name: string, client: ForeignClient][]> {
  return Promise.all(libraries.map(async (each) => [each.name, owned.use(await each.connect(await urlOf(each), options))]));
}

/** Returns what each client gives, by the name of its library. */
async function ofEach<T>(clients: readonly (readonly [string, ForeignClient])[], read: (client: ForeignClient) => Promise<T>) {
  return Object.fromEntries(await Promise.all(clients.map(async ([name, client]) => [name, await read(client)] as const)));
}

function forAll<T>(clients: readonly (readonly [string, ForeignClient])[], value: T): Record<string, T> {
  return Object.fromEntries(clients.map(([name]) => [name, value]));
}

/** Waits until the log has a request of each client that the predicate accepts. */
async function waitForEach(sidecar: RestartableSidecar, count: number, accepts: (line: LogLine) => boolean): Promise<void> {
  const isLogged = (): true | undefined => (sidecar.requests("tools/call").filter(accepts).length >= count ? true : undefined);
  await sidecar.current.waitFor(isLogged, `${count} requests in the log`);
}

describe.each(GROUPS)("clients with $era, MODERN=$modern, after a kill of the sidecar", (group) => {
  it("their calls go on without initialize", async () => {
    await using sidecar = await start(group);
    await using owned = new OwnedResources();
    const clients = await connectAll(owned, group.libraries, () => sidecar.url);
    expect(await ofEach(clients, hasEcho)).toEqual(forAll(clients, true));
    expect(await ofEach(clients, echo)).toEqual(forAll(clients, "echoed"));
    await waitForEach(sidecar, clients.length, ({ tool }) => tool === "echo");
    const initialized = Math.min(sidecar.requests("initialize").length, clients.length);
    expect(initialized).toBe(group.era === "sessions" ? clients.length : 0);
    for (let kills = 0; kills < 2; kills++) {
      await sidecar.killAndRestart();
      expect(await ofEach(clients, hasEcho)).toEqual(forAll(clients, true));
      expect(await ofEach(clients, echo)).toEqual(forAll(clients, "echoed"));
      await waitForEach(sidecar, clients.length, ({ tool }) => tool === "echo");
      expect(sidecar.requests("initialize")).toEqual([]);
    }
  });

  it("their next servers ask them as the first ones did", async () => {
    // Otherwise clients with equal capabilities share a server, which may ask none of them.
    await using sidecar = await start(group, group.era === "sessions" ? { CLAW_MCP_STDIO_ISOLATION: "session" } : {});
    await using owned = new OwnedResources();
    const libraries = group.libraries.filter(({ canElicit }) => canElicit);
    const clients = await connectAll(owned, libraries, () => sidecar.url, { elicits: true });
    const told = await ofEach(clients, receivedInitializes);
    // One after the other: clients without a session and without a token are one client, whose question belongs to its only call.
    for (const [name, client] of clients) expect([name, await ask(client)]).toMatchObject([name, DECLINE]);
    await sidecar.killAndRestart();
    for (const [name, client] of clients) expect([name, await ask(client)]).toMatchObject([name, DECLINE]);
    expect(await ofEach(clients, receivedInitializes)).toEqual(told);
    await waitForEach(sidecar, clients.length, ({ tool }) => tool === "lines");
    expect(sidecar.requests("initialize")).toEqual([]);
  });
});

describe.each(GROUPS.filter(({ era }) => era === "sessions"))(
  "clients with a stream, MODERN=$modern, after a kill of the sidecar",
  (group) => {
    it("their calls in flight end with an error", async () => {
      await using sidecar = await start(group, { CLAW_MCP_STDIO_STREAM_AFTER_MS: "1" });
      await using owned = new OwnedResources();
      const proxies = new Map<string, CuttingProxy>();
      const libraries = group.libraries.filter(({ resumes }) => resumes);
      const clients = await connectAll(owned, libraries, async ({ name }) => {
        // Clients try to resume for a few seconds only.
        const proxy = owned.use(await CuttingProxy.start(sidecar.current.origin, { waitsForTarget: true }));
        proxies.set(name, proxy);
        return proxy.url;
      });
      const calls = ofEach(clients, (client) => client.toolText("wait_for_file", { path: "/never" }).catch(String));
      for (const proxy of proxies.values()) await proxy.waitForRequests(1, ({ method, isStream }) => method === "tools/call" && isStream);
      await sidecar.killAndRestart();
      expect(await calls).toEqual(forAll(clients, expect.stringContaining("The response is lost here")));
      expect(await ofEach(clients, echo)).toEqual(forAll(clients, "echoed"));
    });
  },
);

async function hasEcho(client: ForeignClient): Promise<boolean> {
  return (await client.toolNames()).includes("echo");
}

function echo(client: ForeignClient): Promise<string> {
  return client.toolText("echo", { text: "echoed" });
}

async function ask(client: ForeignClient): Promise<unknown> {
  return JSON.parse(await client.toolText("ask", ELICITATION)) as unknown;
}
