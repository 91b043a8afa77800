/**
 * A line for the MCP server's stdin, and its state. The writer changes it from `queued` to `written`. The sender may withdraw it while it
 * is queued. The server may have seen it only if it is `written`.
 */
export interface Outgoing {
  /** One JSON-RPC message without its newline. Emptied when written unless `isKept`, to free memory while the response is awaited. */
  text: string;
  /** True if the text may be written again, to the next generation. */
  readonly isKept: boolean;
  /** The length in UTF-8; undefined until the writer counts it. */
  byteLength: number | undefined;
  state: "queued" | "written" | "withdrawn";
}

export function outgoing(text: string): Outgoing {
  return { text, isKept: false, byteLength: undefined, state: "queued" };
}
