import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { say } from "../support/held-call.ts";
import { send } from "../support/http-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const SUPPORTED = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"];
const UNSUPPORTED = errorReply(400, -32000, "UNSUPPORTED_PROTOCOL_VERSION", { data: { supported: SUPPORTED } });
const TOOLS_CHANGED = { jsonrpc: "2.0", method: "notifications/tools/list_changed" };

const sidecar = disposeAfterAll(await HttpBench.start());

it.each(["2025-11-26", "2024-10-06", "1.0", "latest", "2025-11-25, 2025-06-18"])(
  "a GET, resuming or not, is rejected with the version %s",
  async (version) => {
    const client = await sidecar.client();
    using stream = await client.openStream();
    for (const lastEventId of [undefined, "s1-0", "garbage"]) {
      const resumed = lastEventId === undefined ? {} : { lastEventId };
      const headers = client.getHeaders({ ...resumed, headers: { "MCP-Protocol-Version": version } });
      expect(readError(await send(client.url, { method: "GET", headers }))).toStrictEqual(UNSUPPORTED);
    }
    await say(client, JSON.stringify(TOOLS_CHANGED));
    expect(await stream.messages(1)).toEqual([TOOLS_CHANGED]);
  },
);

it("a batch with an unknown version is rejected as a whole", async () => {
  const client = await sidecar.client({ protocolVersion: "2025-03-26" });
  const batch = [{ jsonrpc: "2.0", method: "notifications/x-refused" }];
  expect(readError(await client.post(batch, { headers: { "MCP-Protocol-Version": "1.0" } }))).toStrictEqual(UNSUPPORTED);
  expect(JSON.parse(await client.toolText("seen"))).not.toContain("notifications/x-refused");
});

it("a session keeps the negotiated revision regardless of the header: batches still work", async () => {
  const batch = [{ jsonrpc: "2.0", id: 1, method: "ping" }];
  const old = await sidecar.client({ protocolVersion: "2025-03-26" });
  const reply = await old.post(batch, { headers: { "MCP-Protocol-Version": "2025-11-25" } });
  expect([reply.status, JSON.parse(reply.body)]).toEqual([200, [{ jsonrpc: "2.0", id: 1, result: {} }]]);
  const current = await sidecar.client({ protocolVersion: "2025-06-18" });
  expect(readError(await current.post(batch, { headers: { "MCP-Protocol-Version": "2025-03-26" } }))).toStrictEqual(
    errorReply(400, -32600, "INVALID_REQUEST"),
  );
});

it("an initialize is accepted with any version, since it negotiates one", async () => {
  for (const version of [...SUPPORTED, "1.0"]) {
    const client = await sidecar.client({ headers: { "MCP-Protocol-Version": version }, protocolVersion: "2025-06-18" }).catch(String);
    // The notification after it is rejected if the version is unknown.
    if (typeof client === "string") throw new Error(client);
    expect(client.protocolVersion).toBe("2025-06-18");
  }
});
