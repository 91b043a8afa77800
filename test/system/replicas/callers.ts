import { Agent } from "node:http";
import { McpClient } from "../../support/mcp-client.ts";
import { ModernClient } from "../../support/modern-client.ts";
import { InteropClient, type Sdk } from "../../support/sdk-clients.ts";

/** A client that calls one tool. */
export interface Caller extends AsyncDisposable {
  /** @returns the text of the result. @throws if the call was answered with an error, or not at all. */
  call(args: object): Promise<string>;
  /** @throws if the client no longer has the session of its start. */
  checkSession(): void;
}

const TOOL = "record";

/** Opens clients of each kind: most of them have a session, a few are those of an SDK, and a few have no session. */
export function openCallers(
  url: string,
  counts: { readonly raw: number; readonly sdk: number; readonly stateless: number },
): Promise<Caller[]> {
  const times = <T>(count: number, make: () => T): T[] => Array.from({ length: count }, make);
  return Promise.all([
    ...times(counts.raw, () => openRaw(url)),
    ...times(counts.sdk, () => openSdk("v1", url)),
    ...times(counts.sdk, () => openSdk("v2", url)),
    ...times(counts.stateless, () => Promise.resolve(openStateless(url))),
  ]);
}

async function openRaw(url: string): Promise<Caller> {
  const agent = new Agent({ keepAlive: true });
  const client = await new McpClient(url, { agent, sendsVersion: true, protocolVersion: "2025-11-25" }).open();
  return {
    call: (args) => client.toolText(TOOL, args),
    // It has no other.
    checkSession: () => undefined,
    async [Symbol.asyncDispose]() {
      await client.end();
      agent.destroy();
    },
  };
}

/** A client of an official SDK, which also has a GET stream. */
async function openSdk(sdk: Sdk, url: string): Promise<Caller> {
  const client = await InteropClient.connect(sdk, url, { lane: "shared" });
  const { sessionId } = client;
  return {
    call: (args) => client.toolText(TOOL, { ...args }),
    checkSession() {
      if (sessionId === undefined || client.sessionId !== sessionId) throw new Error(`session ${client.sessionId} instead of ${sessionId}`);
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

function openStateless(url: string): Caller {
  const agent = new Agent({ keepAlive: true });
  const client = new ModernClient(url, { agent });
  return {
    call: (args) => client.toolText(TOOL, args),
    checkSession: () => undefined,
    [Symbol.asyncDispose]() {
      agent.destroy();
      return Promise.resolve();
    },
  };
}
