import { request as httpRequest } from "node:http";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { JSON_HEADERS } from "../support/mcp-client.ts";
import { HttpBench } from "../support/http-bench.ts";

const FIVE_MB = 5_000_000;

describe("long messages and messages in pieces", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--max-body-bytes", String(2 * FIVE_MB)] }));
  const client = await sidecar.client();

  /** Sends the body in these pieces, each after the previous one is written. */
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

  it("a result of 5 MB is forwarded unchanged", async () => {
    const text = await client.toolText("big", { length: FIVE_MB });
    expect(text === "x".repeat(FIVE_MB)).toBe(true);
  });

  it("a request of 5 MB is forwarded unchanged", async () => {
    const text = "y".repeat(FIVE_MB);
    expect((await client.toolText("echo", { text })) === text).toBe(true);
  });

  it("small calls between large ones each get their own response", async () => {
    const [large, ...small] = await Promise.all([
      client.toolText("big", { length: FIVE_MB }),
      ...Array.from({ length: 50 }, (_, index) => client.toolText("echo", { text: `small ${index}` })),
    ]);
    expect(large.length).toBe(FIVE_MB);
    expect(small).toEqual(Array.from({ length: 50 }, (_, index) => `small ${index}`));
  });

  // Pipes and sockets cut at powers of two, so nearly every cut falls inside a character of three bytes.
  it("characters that are cut between chunks stay whole in both directions", async () => {
    const text = "€".repeat(FIVE_MB / 3);
    expect((await client.toolText("echo", { text })) === text).toBe(true);
  });

  it("characters stay whole if the body arrives byte by byte", async () => {
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ï","method":"tools/call","params":{"name":"echo","arguments":{"text":"é€😀"}}}`);
    const pieces = Array.from(body, (byte) => Buffer.from([byte]));
    expect(await postInPieces(pieces)).toBe(`{"jsonrpc":"2.0","id":"ï","result":{"content":[{"type":"text","text":"é€😀"}]}}`);
  });
});
