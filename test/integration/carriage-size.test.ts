import { request as httpRequest } from "node:http";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { Sidecar } from "../support/sidecar.ts";

const FIVE_MB = 5_000_000;

describe("carriage of what is long or comes in pieces", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ flags: ["--max-body-bytes", String(2 * FIVE_MB)] }));
  const client = await sidecar.client();

  /** Sends the body in these pieces, each once the one before has left. */
  function postInPieces(pieces: readonly Buffer[]): Promise<string> {
    return new Promise((resolve, reject) => {
      const request = httpRequest(client.url, { method: "POST", headers: { ...JSON_HEADERS, "Mcp-Session-Id": client.sessionId } });
      request.on("response", (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (body += chunk));
        response.on("end", () => resolve(body));
      });
      request.on("error", reject);
      request.setNoDelay(true);
      const writeFrom = (index: number): void => {
        const piece = pieces[index];
        if (piece === undefined) request.end();
        else request.write(piece, () => writeFrom(index + 1));
      };
      writeFrom(0);
    });
  }

  it("carries a result of 5 MB", async () => {
    const text = await client.toolText("big", { length: FIVE_MB });
    expect(text === "x".repeat(FIVE_MB)).toBe(true);
  });

  it("carries a request of 5 MB", async () => {
    const text = "y".repeat(FIVE_MB);
    expect((await client.toolText("echo", { text })) === text).toBe(true);
  });

  it("carries small calls in between large ones, each to its own caller", async () => {
    const [large, ...small] = await Promise.all([
      client.toolText("big", { length: FIVE_MB }),
      ...Array.from({ length: 50 }, (_, index) => client.toolText("echo", { text: `small ${index}` })),
    ]);
    expect(large.length).toBe(FIVE_MB);
    expect(small).toEqual(Array.from({ length: 50 }, (_, index) => `small ${index}`));
  });

  // Pipes and sockets cut at powers of two: with characters of three bytes nearly every cut is inside one.
  it("keeps characters whole that are cut by the pieces of a stream, both ways", async () => {
    const text = "€".repeat(FIVE_MB / 3);
    expect((await client.toolText("echo", { text })) === text).toBe(true);
  });

  it("keeps characters whole when the body comes byte by byte", async () => {
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ï","method":"tools/call","params":{"name":"echo","arguments":{"text":"é€😀"}}}`);
    const pieces = Array.from(body, (byte) => Buffer.from([byte]));
    expect(await postInPieces(pieces)).toBe(`{"jsonrpc":"2.0","id":"ï","result":{"content":[{"type":"text","text":"é€😀"}]}}`);
  });
});
