/**
 * A line for the MCP server's stdin, and its state. The writer changes it from `queued` to `written`. The sender may remove it while it is
 * queued. The server may have seen it only if it is `written`.
 */
export interface Outgoing {
  /** One JSON-RPC message without its newline. Emptied when written unless `isKept`, to free memory while the response is awaited. */
  text: string;
  /** A line of the sidecar has no meaning for the next generation, so it is never sent again. */
  readonly origin: "client" | "sidecar";
  /** True if the text may be written again, to the next generation. */
  readonly isKept: boolean;
  /** The length in UTF-8; undefined until the writer counts it. */
  byteLength: number | undefined;
  state: "queued" | "written";
  /** Called when the emptied text has left the memory. */
  onEmptied?: (() => void) | undefined;
}

/** Returns a line of the sidecar itself. */
export function outgoing(text: string): Outgoing {
  return { origin: "sidecar", text, isKept: false, byteLength: undefined, state: "queued" };
}
