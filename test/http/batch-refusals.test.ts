import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { readSeen } from "../support/fixture-server.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const REFUSED = errorReply(400, -32600, "INVALID_REQUEST");
const GOOD = JSON.stringify({ jsonrpc: "2.0", method: "notifications/refused" });

const sidecar = disposeAfterAll(await HttpBench.start());
const client = await sidecar.client({ protocolVersion: "2025-03-26" });

it.each([
  ["an empty batch", "[]"],
  ["a batch of white space", " [ \n ] "],
  ["a batch of more than a hundred messages", `[${Array.from({ length: 101 }, () => GOOD).join(",")}]`],
  [
    "a batch with an initialize request",
    `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}]`,
  ],
  ["a batch with a member that is not an object", `[${GOOD},42]`],
  ["a batch with a null member", `[${GOOD},null]`],
  ["a batch inside a batch", `[${GOOD},[${GOOD}]]`],
  ["a batch with a member that is not a message", `[${GOOD},{"id":1}]`],
  ["a batch with a message without a version", `[${GOOD},{"id":1,"method":"ping"}]`],
  ["a batch with a null id", `[${GOOD},{"jsonrpc":"2.0","id":null,"method":"ping"}]`],
  ["a batch with a message that repeats a member", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}]`],
  ["a batch with a notification that has an id", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"notifications/refused"}]`],
])("%s is rejected, and none of it reaches the server", async (_why, body) => {
  expect(readError(await client.post(body))).toStrictEqual(REFUSED);
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it.each(["[", "[{]", "[{},]", `[${GOOD}`, `[${GOOD}]x`])("a batch that is not JSON is rejected: %s", async (body) => {
  expect(readError(await client.post(body))).toStrictEqual(errorReply(400, -32700, "PARSE_ERROR"));
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it.each(["2025-06-18", "2025-11-25"])("a batch is rejected if %s was negotiated, despite an older header", async (version) => {
  const own = await sidecar.client({ protocolVersion: version });
  for (const header of [{}, { "MCP-Protocol-Version": "2025-03-26" }]) {
    expect(readError(await own.post(`[${GOOD}]`, { headers: header }))).toStrictEqual(REFUSED);
  }
  expect(await readSeen(client)).not.toContain("notifications/refused");
});

it("a batch without a session, or with an ended one, is rejected", async () => {
  const body = `[${GOOD}]`;
  expect(readError(await send(sidecar.url, { headers: JSON_HEADERS, body }))).toStrictEqual(REFUSED);
  const ended = await sidecar.client({ protocolVersion: "2025-03-26" });
  await ended.end();
  expect(readError(await ended.post(body))).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND"));
});
