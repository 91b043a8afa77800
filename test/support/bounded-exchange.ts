import { type HttpCall, type HttpReply, startRequest } from "./http-client.ts";

export interface BoundedCall extends HttpCall {
  readonly maxBytes: number;
  readonly timeoutMs: number;
}

export interface BoundedReply extends HttpReply {
  /** True if the body was longer than `maxBytes`; the rest was not read. */
  readonly isTruncated: boolean;
}

/** Makes one HTTP exchange like a Go client with a limited reader: with a deadline for all of it, and a limit for the body. */
export async function boundedReply(url: string, { maxBytes, timeoutMs, ...call }: BoundedCall): Promise<BoundedReply> {
  const response = await startRequest(url, { ...call, signal: AbortSignal.timeout(timeoutMs) }).response;
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > maxBytes) break;
  }
  const body = Buffer.concat(chunks).subarray(0, maxBytes).toString();
  return { status: response.statusCode ?? 0, headers: response.headers, body, isTruncated: length > maxBytes };
}
