import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { CuttingProxy, type ProxiedRequest } from "../support/cutting-proxy.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, InteropClient, type Sdk } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

/** The reconnection delay that the sidecar requests of clients. */
const RETRY_MS = 1000;
/** Long enough for a second reconnection. */
const QUIET_MS = 2.5 * RETRY_MS;

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

function isGet({ httpMethod }: ProxiedRequest): boolean {
  return httpMethod === "GET";
}

/** Waits for this many GETs of a client, and then long enough for another one. @returns the status of each. */
async function quietAfter(proxy: CuttingProxy, count: number): Promise<(number | undefined)[]> {
  await proxy.waitForRequests(count, isGet);
  await delay(QUIET_MS);
  return proxy.requests.filter(isGet).map(({ status }) => status);
}

let lastName = 0;

/** Makes a call whose response begins as a stream, and finishes it. */
async function streamedCall(client: InteropClient, end: { readonly answer?: string; readonly error?: string }): Promise<unknown> {
  const name = `call ${++lastName}`;
  const answered = client.callTool("test_wait", { name }, { onprogress: () => undefined }).catch((error: unknown) => error);
  await client.toolText("test_tell", { name, progress: 1 });
  await client.toolText("test_tell", { name, ...end });
  return answered;
}

/** Runs a scenario with all clients at once, since an absent reconnection takes time to prove. @returns the results by client name. */
async function eachClient(
  scenario: (client: InteropClient, proxy: CuttingProxy, sdk: Sdk) => Promise<unknown>,
): Promise<Record<string, unknown>> {
  const results = CLIENTS.map(async ({ sdk, lane }) => {
    await using proxy = await CuttingProxy.start(sidecar.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    await proxy.waitForRequests(1, isGet);
    return [`${sdk} ${lane}`, await scenario(client, proxy, sdk)];
  });
  return Object.fromEntries(await Promise.all(results)) as Record<string, unknown>;
}

function forAll(expected: unknown): Record<string, unknown> {
  return Object.fromEntries(CLIENTS.map(({ sdk, lane }) => [`${sdk} ${lane}`, expected]));
}

describe.concurrent("reconnection of a client", () => {
  it("a client does not reconnect after responses", async () => {
    const seen = await eachClient(async (client, proxy) => {
      await client.listTools();
      await expect(client.callTool("no_such_tool")).rejects.toThrow("no_such_tool");
      expect(await streamedCall(client, { answer: "done" })).toEqual({ content: [{ type: "text", text: "done" }] });
      return { gets: await quietAfter(proxy, 1), errors: [...client.errors] };
    });
    expect(seen).toEqual(forAll({ gets: [200], errors: [] }));
  });

  it("a client reconnects at most once after an error at the end of a stream", async () => {
    const seen = await eachClient(async (client, proxy, sdk) => {
      expect(await streamedCall(client, { error: "out of order" })).toMatchObject({ code: -32603 });
      return { gets: await quietAfter(proxy, sdk === "v1" ? 2 : 1), errors: [...client.errors] };
    });
    // The first SDK generation does not take an error for a response. It requests the rest, and learns that there is none.
    const v1 = { gets: [200, 204], errors: [] };
    expect(seen).toEqual({ ...forAll({ gets: [200], errors: [] }), "v1 private": v1, "v1 shared": v1 });
  });

  it("a cancellation reaches the server, and its client reconnects once", async () => {
    const seen = await eachClient(async (client, proxy) => {
      const name = `call ${++lastName}`;
      const cancel = new AbortController();
      const onprogress = (): void => cancel.abort("enough");
      const cancelled = client.callTool("test_wait", { name }, { signal: cancel.signal, onprogress }).catch(String);
      await client.toolText("test_tell", { name, progress: 1 });
      expect(await cancelled).toContain("enough");
      expect(await client.toolText("test_cancellation", { name })).toBe("enough");
      return { gets: await quietAfter(proxy, 2), errors: [...client.errors] };
    });
    expect(seen).toEqual(forAll({ gets: [200, 204], errors: [] }));
  });
});
