import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER, MODERN_CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { INVALID_PARAMS, INVALID_REQUEST, failureOf } from "../support/error-reply.ts";
import type { JsonRpcMessage } from "../support/json-rpc.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { initializeRequest } from "../support/mcp-client.ts";
import { META, MODERN_VERSION } from "../support/modern-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const RELATED_TASK = "io.modelcontextprotocol/related-task";
const ENVELOPE = { [META.protocolVersion]: MODERN_VERSION, [META.clientCapabilities]: {} };

interface Form {
  readonly what: string;
  readonly failure: readonly unknown[];
  /** Members of the envelope besides `jsonrpc`, `id` and `method`. */
  readonly members: object;
}

function envelope(what: string, members: object): Form {
  return { what, failure: INVALID_REQUEST, members };
}

function metas(what: string, values: readonly unknown[]): Form[] {
  return values.map((value) => ({
    what: `${what} ${JSON.stringify(value)}`,
    failure: INVALID_PARAMS,
    members: { params: { _meta: value } },
  }));
}

/** Keys beside those of the client's revision. */
function keys(name: string, values: readonly unknown[]): Form[] {
  return metas(
    "a _meta of",
    values.map((value) => ({ ...ENVELOPE, [name]: value })),
  );
}

/** Requests and notifications of these forms get no answer from the official SDKs, which do not pass them to the server. */
const DROPPED: readonly Form[] = [
  ...[1, null, {}].map((value) => envelope(`a foreign member ${JSON.stringify(value)}`, { foreign: value })),
  envelope("a _meta beside the method", { _meta: {} }),
  ...[1, {}].map((value) => envelope(`a result ${JSON.stringify(value)}`, { result: value })),
  envelope("an error", { error: { code: 1, message: "no" } }),
  ...[null, "x", 1, true, []].map((value) => envelope(`params ${JSON.stringify(value)}`, { params: value })),
  ...metas("a _meta of", [null, "x", 1, true, []]),
  ...keys("progressToken", [null, 1.5, true, [], {}]),
  ...keys(RELATED_TASK, [null, "x", 1, true, [], {}, { taskId: 1 }, { taskId: null }]),
];

/** Requests with these members of params, and of its _meta, are answered. */
const ANSWERED: readonly { readonly params?: object; readonly meta?: Readonly<Record<string, unknown>> }[] = [
  { params: { foreign: null, progressToken: {}, requestId: [] } },
  { meta: { "com.example/x": [null], traceparent: 1, [META.subscriptionId]: {} } },
  { meta: { progressToken: "" } },
  { meta: { progressToken: -9_007_199_254_740_991 } },
  { meta: { [RELATED_TASK]: { taskId: "t", foreign: 1 } } },
];

/** Returns the ids of the responses of a server without a sidecar, when it has answered the last of these requests. */
async function answeredBy([command = "", ...args]: readonly string[], requests: readonly object[]): Promise<unknown[]> {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "ignore"] });
  const ids: unknown[] = [];
  try {
    child.stdin.write([initializeRequest(), ...requests].map((each) => `${JSON.stringify(each)}\n`).join(""));
    for await (const line of createInterface({ input: child.stdout })) {
      ids.push((JSON.parse(line) as JsonRpcMessage).id);
      if (ids.at(-1) === "last") return ids;
    }
    throw new Error(`the server has ended after ${JSON.stringify(ids)}`);
  } finally {
    child.kill("SIGKILL");
  }
}

describe.each([
  ["SDK 1.x", CONFORMANCE_SERVER],
  ["SDK 2.x", MODERN_CONFORMANCE_SERVER],
])("a server on %s", async (_sdk, command) => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command, flags: ["--legacy-sse", "on"] }));
  const client = await sidecar.client();
  const modern = sidecar.modernClient();
  const sse = await LegacySseClient.connect(sidecar.origin);
  const batches = await sidecar.client({ protocolVersion: "2025-03-26" });

  it("the server itself leaves all of these forms unanswered", async () => {
    const odd = DROPPED.map(({ what, members }) => ({ jsonrpc: "2.0", id: what, method: "tools/list", ...members }));
    const fraction = { jsonrpc: "2.0", id: 1.5, method: "tools/list" };
    expect(await answeredBy(command, [...odd, fraction, { jsonrpc: "2.0", id: "last", method: "ping" }])).toEqual([1, "last"]);
  });

  it.each(DROPPED)("a request with $what is rejected at once, in every transport", async ({ members, failure }) => {
    const request = { jsonrpc: "2.0", id: "odd", method: "tools/list", ...members };
    for (const reply of [await client.post(request), await modern.post(request), await sse.post(request)]) {
      expect(failureOf(reply)).toEqual(failure);
      expect(JSON.parse(reply.body)).toMatchObject({ id: "odd", error: { data: { sent: false } } });
    }
    expect(failureOf(await batches.post([{ jsonrpc: "2.0", id: "good", method: "ping" }, request]))).toEqual(failure);
  });

  it.each(DROPPED)("a notification with $what is rejected at once, in every transport", async ({ members, failure }) => {
    const notification = { jsonrpc: "2.0", method: "notifications/x-vendor", ...members };
    for (const reply of [await client.post(notification), await modern.post(notification), await sse.post(notification)]) {
      expect(failureOf(reply)).toEqual(failure);
      expect(JSON.parse(reply.body)).not.toHaveProperty("id");
    }
  });

  it.each(ANSWERED)("a request with %j is answered by the server", async ({ params, meta }) => {
    expect(await client.request("tools/list", { ...params, _meta: { ...meta } })).toMatchObject({ status: 200, result: { tools: {} } });
    expect(await modern.request("tools/list", { ...params }, { meta: { ...meta } })).toMatchObject({ status: 200, result: { tools: {} } });
  });
});
