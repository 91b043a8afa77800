import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { McpClient } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

/** The limit for any client, plus one byte. */
const ASKED = 64 * 1024 + 1;
const DECLARED = 1024 * 1024;

const sidecar = disposeAfterAll(await HttpBench.start());

/** Sends the beginning of a body and waits for the response. A sidecar that read on would send none. */
async function answerToBeginning(beginning: string, ...fields: readonly string[]): Promise<HttpReply> {
  using connection = await RawConnection.open(sidecar.origin);
  const head = ["POST /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Accept: application/json", ...fields];
  await connection.write(`${head.join("\r\n")}\r\nContent-Length: ${DECLARED}\r\n\r\n${beginning.padEnd(ASKED, " ")}`);
  return await connection.reply();
}

it.each([
  ["stops being JSON within its method", String.raw`{"jsonrpc":"2.0","id":1,"method":"\uZZ${"x".repeat(100)}"`],
  ["stops being JSON before its method", '{"jsonrpc":"2.0",id:1,"method":"initialize"'],
  ["has initialize in a nested object only", '{"jsonrpc":"2.0","id":1,"params":{"method":"initialize"}'],
])("a body without a session is not read if it %s", async (_title, beginning) => {
  const reply = readError(await answerToBeginning(beginning));
  expect(reply).toMatchObject({ status: 400, body: { error: { data: { code: "SESSION_REQUIRED", sent: false } } } });
});

it("a body is not read with a session that does not exist", async () => {
  const reply = readError(await answerToBeginning("{", "Mcp-Session-Id: unknown"));
  expect(reply).toMatchObject({ status: 404, body: { error: { data: { code: "SESSION_NOT_FOUND", sent: false } } } });
});

it("a long initialize is read without a session", async () => {
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: { experimental: { pad: "x".repeat(DECLARED) } },
    clientInfo: { name: "a", version: "1" },
  };
  const reply = await new McpClient(sidecar.url).post({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  expect(reply.status).toBe(200);
});
