import { type Agent, type IncomingHttpHeaders, request as httpRequest } from "node:http";

export interface BoundedCall {
  readonly method: "GET" | "POST";
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly maxBytes: number;
  readonly timeoutMs: number;
  readonly agent: Agent;
}

export interface BoundedReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The body went on after `maxBytes`; it was not read further. */
  readonly isTruncated: boolean;
}

/** One HTTP exchange as a Go client with a limited reader makes it: a deadline for all of it, and an end of patience with long bodies. */
export function boundedExchange(url: string, { method, headers, body, maxBytes, timeoutMs, agent }: BoundedCall): Promise<BoundedReply> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, headers, agent, signal: AbortSignal.timeout(timeoutMs) }, (response) => {
      const chunks: Buffer[] = [];
      let length = 0;
      const finish = (isTruncated: boolean): void => {
        const bytes = Buffer.concat(chunks).subarray(0, maxBytes);
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: bytes.toString(), isTruncated });
      };
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        length += chunk.length;
        if (length <= maxBytes) return;
        finish(true);
        response.destroy();
      });
      response.once("end", () => finish(false));
      response.once("error", reject);
    });
    request.once("error", reject);
    request.end(body);
  });
}
