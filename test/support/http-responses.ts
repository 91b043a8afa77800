/** One response, as received on a connection. */
export interface WireResponse {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

interface Body {
  readonly body: string;
  /** The bytes as received. */
  readonly length: number;
}

/**
 * Reads all responses of a connection, strictly: each must be complete, with nothing between them. Responses to HEAD have no body, regardless of
 * their length says.
 * @param isCutOff true if the last one may be incomplete.
 * @throws if the bytes are not HTTP.
 */
export function parseResponses(bytes: Buffer, isCutOff: boolean): WireResponse[] {
  const responses: WireResponse[] = [];
  let rest = bytes;
  while (rest.length > 0) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd === -1 && isCutOff) break;
    if (headEnd === -1) throw new Error(`a response without an end of its head: ${shown(rest)}`);
    const [statusLine = "", ...fields] = rest.subarray(0, headEnd).toString("latin1").split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) \S/.exec(statusLine)?.[1]);
    if (Number.isNaN(status)) throw new Error(`no status line: ${shown(rest)}`);
    const headers = new Map(fields.map((field) => [field.slice(0, field.indexOf(":")).toLowerCase(), field.slice(field.indexOf(":") + 2)]));
    const found = readBody(rest.subarray(headEnd + 4), headers, status);
    if (found === undefined && isCutOff) break;
    if (found === undefined) throw new Error(`a body that is not whole, or has no length: ${shown(rest)}`);
    const { body, length } = found;
    responses.push({ status, headers, body });
    rest = rest.subarray(headEnd + 4 + length);
  }
  return responses;
}

function readBody(bytes: Buffer, headers: ReadonlyMap<string, string>, status: number): Body | undefined {
  // A response to HEAD: the next response, or nothing, follows the head.
  const isWithout =
    status < 200 || status === 204 || status === 304 || bytes.length === 0 || bytes.subarray(0, 9).toString() === "HTTP/1.1 ";
  if (isWithout) return { body: "", length: 0 };
  if (headers.get("transfer-encoding") === "chunked") return readChunks(bytes);
  const length = Number(headers.get("content-length"));
  return length <= bytes.length ? { body: bytes.subarray(0, length).toString(), length } : undefined;
}

function readChunks(bytes: Buffer): Body | undefined {
  const chunks: Buffer[] = [];
  let start = 0;
  for (;;) {
    const lineEnd = bytes.indexOf("\r\n", start);
    const size = Number.parseInt(bytes.subarray(start, lineEnd).toString("latin1"), 16);
    if (lineEnd === -1 || Number.isNaN(size) || lineEnd + 2 + size + 2 > bytes.length)
      throw new Error(`chunks that are cut off: ${shown(bytes)}`);
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    start = lineEnd + 2 + size + 2;
    if (size === 0) return { body: Buffer.concat(chunks).toString(), length: start };
  }
}

function shown(bytes: Buffer): string {
  return JSON.stringify(bytes.subarray(0, 300).toString("latin1"));
}
