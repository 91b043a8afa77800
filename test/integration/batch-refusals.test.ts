import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { readSeen } from "../support/in-flight.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const REFUSED = errorReply(400, -32600, "INVALID_REQUEST");
const GOOD = JSON.stringify({ jsonrpc: "2.0", method: "notifications/refused" });

describe("a batch is refused, and nothing of it reaches the server,", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start());
  const client = await sidecar.client({ protocolVersion: "2025-03-26" });

  it.each([
    ["where it is empty", "[]"],
    ["where it is empty but for white space", " [ \n ] "],
    ["where it has more than a hundred messages", `[${Array.from({ length: 101 }, () => GOOD).join(",")}]`],
    [
      "where initialize is part of it",
      `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{}}}]`,
    ],
    ["where a member is no object", `[${GOOD},42]`],
    ["where a member is null", `[${GOOD},null]`],
    ["where a member is a batch", `[${GOOD},[${GOOD}]]`],
    ["where a member is no message", `[${GOOD},{"id":1}]`],
    ["where a member has no version", `[${GOOD},{"id":1,"method":"ping"}]`],
    ["where a member has a null id", `[${GOOD},{"jsonrpc":"2.0","id":null,"method":"ping"}]`],
    ["where a member repeats one of its own", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}]`],
    ["where a notification has an id", `[${GOOD},{"jsonrpc":"2.0","id":1,"method":"notifications/refused"}]`],
  ])("%s", async (_why, body) => {
    expect(readError(await client.post(body))).toStrictEqual(REFUSED);
    expect(await readSeen(client)).not.toContain("notifications/refused");
  });

  it.each(["[", "[{]", "[{},]", `[${GOOD}`, `[${GOOD}]x`])("where it is no JSON: %s", async (body) => {
    expect(readError(await client.post(body))).toStrictEqual(errorReply(400, -32700, "PARSE_ERROR"));
    expect(await readSeen(client)).not.toContain("notifications/refused");
  });

  it.each(["2025-06-18", "2025-11-25"])("where %s was negotiated, whatever MCP-Protocol-Version says", async (version) => {
    const own = await sidecar.client({ protocolVersion: version });
    for (const header of [{}, { "MCP-Protocol-Version": "2025-03-26" }]) {
      expect(readError(await own.post(`[${GOOD}]`, { headers: header }))).toStrictEqual(REFUSED);
    }
    expect(await readSeen(client)).not.toContain("notifications/refused");
  });

  it("where it has no session, or one that has ended", async () => {
    const body = `[${GOOD}]`;
    expect(readError(await send(sidecar.url, { headers: JSON_HEADERS, body }))).toStrictEqual(REFUSED);
    const ended = await sidecar.client({ protocolVersion: "2025-03-26" });
    await ended.end();
    expect(readError(await ended.post(body))).toStrictEqual(errorReply(404, -32001, "SESSION_NOT_FOUND"));
  });
});
