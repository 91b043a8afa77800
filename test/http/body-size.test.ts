import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { HttpReply } from "../support/http-client.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";

const LIMIT = 2048;
const TOO_LARGE = errorReply(413, -32000, "BODY_TOO_LARGE", { data: { limitBytes: LIMIT, sent: false } });
/** Far more than the buffers of both sockets hold: the client can send it only if the sidecar reads. */
const HUGE = 32 * 1024 * 1024;

const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--max-body-bytes", String(LIMIT)] }));
const client = await sidecar.client();

function message(method: string, bytes: number): string {
  const empty = JSON.stringify({ jsonrpc: "2.0", id: 7, method, params: { pad: "" } });
  return JSON.stringify({ jsonrpc: "2.0", id: 7, method, params: { pad: "x".repeat(bytes - empty.length) } });
}

function head(...fields: readonly string[]): string {
  return [
    "POST /mcp HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    "Accept: application/json",
    `Mcp-Session-Id: ${client.sessionId}`,
    ...fields,
    "\r\n",
  ].join("\r\n");
}

function chunk(data: string | Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), Buffer.from(data), Buffer.from("\r\n")]);
}

it("a body of exactly the limit is accepted", async () => {
  const body = message("ping", LIMIT);
  expect(Buffer.byteLength(body)).toBe(LIMIT);
  expect(readError(await client.post(body)).body).toEqual({ jsonrpc: "2.0", id: 7, result: {} });
});

it("a chunked body of exactly the limit is accepted", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const body = message("ping", LIMIT);
  await connection.write(head("Transfer-Encoding: chunked"));
  await connection.write(chunk(body.slice(0, 1000)));
  await connection.write(chunk(body.slice(1000)));
  await connection.write("0\r\n\r\n");
  expect(readError(await connection.reply()).body).toEqual({ jsonrpc: "2.0", id: 7, result: {} });
});

it("the limit counts bytes, not characters", async () => {
  const body = `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"pad":"${"€".repeat(LIMIT / 3)}"}}`;
  expect(body.length).toBeLessThan(LIMIT);
  expect(readError(await client.post(body))).toStrictEqual(TOO_LARGE);
});

it("a chunked body over the limit gets 413 before its end", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(head("Transfer-Encoding: chunked"));
  await connection.write(chunk("x".repeat(LIMIT + 1)));
  expect(readError(await connection.reply())).toStrictEqual(TOO_LARGE);
});

it.each([
  ["declared", `Content-Length: ${HUGE}`, Buffer.alloc(HUGE, " ")],
  ["chunked", "Transfer-Encoding: chunked", Buffer.concat([chunk(Buffer.alloc(HUGE, " ")), Buffer.from("0\r\n\r\n")])],
])("a client that sends a whole %s body before it reads gets 413", async (_what, field, body) => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(head(field));
  await connection.write(body);
  expect(readError(await connection.reply())).toStrictEqual(TOO_LARGE);
});

it("the connection of a client that never stops sending is closed", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  await connection.write(head("Transfer-Encoding: chunked"));
  const data = chunk(Buffer.alloc(64 * 1024, " "));
  const sending = async (): Promise<never> => {
    for (;;) await connection.write(data);
  };
  const closed = { code: expect.stringMatching(/^(?:EPIPE|ECONNRESET|ECANCELED)$/) as unknown };
  const [reply] = await Promise.all([connection.reply(), expect(sending()).rejects.toMatchObject(closed)]);
  expect(readError(reply)).toStrictEqual(TOO_LARGE);
});

it("no part of a body over the limit reaches the server", async () => {
  const refused = "x-test/too-large";
  const ending = `${message(refused, LIMIT + 1)}\n`;
  expect((await client.post(ending)).status).toBe(413);
  expect((await client.post(`\n${message(refused, LIMIT)}\n`)).status).toBe(413);
  {
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(head("Transfer-Encoding: chunked"));
    await connection.write(Buffer.concat([chunk(message(refused, LIMIT)), chunk(" ".repeat(LIMIT)), Buffer.from("0\r\n\r\n")]));
    expect((await connection.reply()).status).toBe(413);
  }
  expect(JSON.parse(await client.toolText("seen"))).not.toContain(refused);
});

it("a body that ends before its declared length is rejected and not forwarded", async () => {
  using connection = await RawConnection.open(sidecar.origin);
  const body = message("x-test/cut-off", 500);
  await connection.write(`${head(`Content-Length: ${body.length + 1}`)}${body}`);
  connection.end();
  expect(readError(await connection.reply())).toStrictEqual(errorReply(400, -32000, "BODY_INCOMPLETE", { data: { sent: false } }));
  expect(JSON.parse(await client.toolText("seen"))).not.toContain("x-test/cut-off");
});

/** The limit for any client, plus one byte. */
const ASKED = 64 * 1024 + 1;
const DECLARED = 1024 * 1024;

describe("a body that arrives before it is known to be of use", async () => {
  const plain = disposeAfterAll(await HttpBench.start());

  /** Sends the beginning of a body and waits for the response. A sidecar that read on would send none. */
  async function answerToBeginning(beginning: string, ...fields: readonly string[]): Promise<HttpReply> {
    using connection = await RawConnection.open(plain.origin);
    const lines = ["POST /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Accept: application/json", ...fields];
    await connection.write(`${lines.join("\r\n")}\r\nContent-Length: ${DECLARED}\r\n\r\n${beginning.padEnd(ASKED, " ")}`);
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
    const reply = await new McpClient(plain.url).post(initializeRequest({ experimental: { pad: "x".repeat(DECLARED) } }));
    expect(reply.status).toBe(200);
  });
});
