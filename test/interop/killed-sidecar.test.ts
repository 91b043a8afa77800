import { describe, expect, it } from "vitest";
import { ASKABLE } from "../support/mcp-client.ts";
import { ModernSdkClient, NEGOTIATIONS } from "../support/modern-sdk-client.ts";
import { offer } from "../support/fixture-server.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { KEYED, RestartableSidecar, receivedInitializes } from "../support/restartable-sidecar.ts";
import { CLIENTS, InteropClient, type InteropOptions } from "../support/sdk-clients.ts";
import type { StartOptions } from "../support/sidecar.ts";

const PERSISTENT: StartOptions = { flags: ["--request-log", "all"], env: KEYED };
const OFFER = offer({ tools: { listChanged: true }, prompts: { listChanged: true } });
const RESOURCES_CHANGED = JSON.stringify({ jsonrpc: "2.0", method: "notifications/resources/list_changed" });
const ELICITATION = {
  method: "elicitation/create",
  params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } },
};
const NEVER = "/never";
/** The SDK waits for a minute before it gives up a request by itself. */
const MAX_ERROR_MS = 20_000;

interface Client {
  readonly name: string;
  readonly lane: "private" | "shared";
  readonly client: InteropClient;
}

/** Connects the clients of both SDKs, with a private and with the shared server. One kill of the sidecar is for all of them. */
function connectAll(owned: OwnedResources, sidecar: RestartableSidecar, options: InteropOptions = {}): Promise<Client[]> {
  return Promise.all(
    CLIENTS.map(async ({ sdk, lane }) => {
      const client = owned.use(await InteropClient.connect(sdk, sidecar.url, { lane, ...options }));
      return { name: `${sdk} ${lane}`, lane, client };
    }),
  );
}

/** Returns what each client gives, by its name. */
async function ofEach<T>(
  clients: readonly Client[],
  read: (client: InteropClient, each: Client) => Promise<T>,
): Promise<Record<string, T>> {
  const entries = await Promise.all(clients.map(async (each) => [each.name, await read(each.client, each)] as const));
  return Object.fromEntries(entries);
}

function forAll<T>(value: T): Record<string, T> {
  return Object.fromEntries(CLIENTS.map(({ sdk, lane }) => [`${sdk} ${lane}`, value]));
}

function echo(client: InteropClient): Promise<string> {
  return client.toolText("echo", { text: "still here" });
}

function timesInitialized({ requests }: InteropClient): Promise<number> {
  return Promise.resolve(requests.methods.filter((method) => method === "initialize").length);
}

describe("clients with sessions, after a kill of the sidecar", () => {
  it("their calls go on in the same session without initialize", async () => {
    await using sidecar = await RestartableSidecar.start(PERSISTENT);
    await using owned = new OwnedResources();
    const clients = await connectAll(owned, sidecar);
    const sessionIds = clients.map(({ client }) => client.sessionId);
    const told = await ofEach(clients, receivedInitializes);
    for (let kills = 0; kills < 2; kills++) {
      await sidecar.killAndRestart();
      expect(await ofEach(clients, echo)).toEqual(forAll("still here"));
      for (const { client } of clients) expect((await client.listTools()).length).toBeGreaterThan(0);
      // The next server is told the same as the first one.
      expect(await ofEach(clients, receivedInitializes)).toEqual(told);
      expect(clients.map(({ client }) => client.sessionId)).toEqual(sessionIds);
      expect(await ofEach(clients, timesInitialized)).toEqual(forAll(1));
      const isLogged = (): true | undefined => (sidecar.requests("tools/call").length >= 2 * clients.length ? true : undefined);
      await sidecar.current.waitFor(isLogged, "the requests of all clients in the log");
      expect(sidecar.requests("initialize")).toEqual([]);
    }
    const clientInfo = { name: "claw-mcp-stdio" };
    const [asked, shared] = [[{ capabilities: ASKABLE, clientInfo }], [{ clientInfo }]];
    expect(told).toMatchObject({ "v1 private": asked, "v2 private": asked, "v1 shared": shared, "v2 shared": shared });
  });

  it.each([0, 2])("their streams with %d events open again and announce that lists may have changed", async (events) => {
    await using sidecar = await RestartableSidecar.start({ env: { ...KEYED, FIXTURE_INITIALIZE_RESULT: OFFER } });
    await using owned = new OwnedResources();
    const clients = await connectAll(owned, sidecar, { isPatient: true });
    expect(await ofEach(clients, (client) => client.requests.streamStatus)).toEqual(forAll(200));
    // What a server says is for all of its clients.
    const senders = clients.filter(({ name }) => name.startsWith("v1"));
    for (const { client } of senders) await client.toolText("noise", { line: RESOURCES_CHANGED, count: events });
    for (let index = 0; index < events; index++) {
      await ofEach(clients, (client) => client.waitToHear("notifications/resources/list_changed"));
      for (const { client } of clients) client.heard.shift();
    }
    await sidecar.killAndRestart();
    for (const list of ["tools", "prompts"]) await ofEach(clients, (client) => client.waitToHear(`notifications/${list}/list_changed`));
    expect(await ofEach(clients, echo)).toEqual(forAll("still here"));
    expect(await ofEach(clients, (client) => Promise.resolve(client.heard.length))).toEqual(forAll(2));
  });

  it("their calls with a stream end with an error", async () => {
    await using sidecar = await RestartableSidecar.start({ env: KEYED });
    await using owned = new OwnedResources();
    const clients = await connectAll(owned, sidecar, { isPatient: true });
    const calls = clients.map(({ client }) => {
      const progress = Promise.withResolvers<void>();
      const outcome = client.callTool("wait_for_file", { path: NEVER }, { onprogress: () => progress.resolve() });
      return { progress: progress.promise, outcome: outcome.then(() => "answered", String) };
    });
    await Promise.all(calls.map(({ progress }) => progress));
    await sidecar.killAndRestart();
    const startMs = performance.now();
    for (const { outcome } of calls) expect(await outcome).toMatch(/^(McpError|ProtocolError): .*The response is lost here/);
    expect(performance.now() - startMs).toBeLessThan(MAX_ERROR_MS);
    expect(await ofEach(clients, echo)).toEqual(forAll("still here"));
  });
});

describe("clients of 2026-07-28, after a kill of the sidecar", () => {
  it("their calls go on without another discovery, and servers can ask them again", async () => {
    await using sidecar = await RestartableSidecar.start({});
    await using owned = new OwnedResources();
    const clients: ModernSdkClient[] = [];
    for (const negotiation of NEGOTIATIONS) {
      clients.push(owned.use(await ModernSdkClient.connect(sidecar.url, negotiation, { elicitation: { form: {} } })));
    }
    for (const client of clients) client.setRequestHandler("elicitation/create", () => ({ action: "decline" }));
    for (let kills = 0; kills < 2; kills++) {
      for (const client of clients) {
        expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject({ result: { action: "decline" } });
        client.sent.length = 0;
      }
      await sidecar.killAndRestart();
      for (const client of clients) {
        expect(await client.toolText("echo", { text: "second" })).toBe("second");
        expect(client.sent).toEqual(["POST tools/call"]);
      }
    }
    for (const client of clients) {
      expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject({ result: { action: "decline" } });
    }
  });
});
