import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { RawConnection, headBytes } from "../support/raw-connection.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const FIVE_MB = 5_000_000;

const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--max-body-bytes", String(2 * FIVE_MB)] }));
const client = await sidecar.client();

// Pipes and sockets cut at powers of two, so nearly every cut falls inside a character of three bytes.
it("a request and a result of 5 MB stay whole, with their characters", async () => {
  const text = "€".repeat(FIVE_MB / 3);
  expect((await client.toolText("echo", { text })) === text).toBe(true);
});

it("characters stay whole if the body arrives byte by byte", async () => {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":"ï","method":"tools/call","params":{"name":"echo","arguments":{"text":"é€😀"}}}`);
  using connection = await RawConnection.open(sidecar.origin);
  const headers = { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId, "Content-Length": String(body.length) };
  await connection.write(headBytes("POST /mcp", headers));
  for (const byte of body) await connection.write(Buffer.from([byte]));
  expect((await connection.reply()).body).toBe(`{"jsonrpc":"2.0","id":"ï","result":{"content":[{"type":"text","text":"é€😀"}]}}`);
});
