/**
 * One line on its way to the MCP server's stdin, and how far it has come. The writer moves it from `queued` to `written`; whoever
 * made it may withdraw it while it is queued. Only `written` means that the server may have seen it.
 */
export interface Outgoing {
  /** One JSON-RPC message without its newline. Empty once it is written, unless it is kept: an answer may be long in coming. */
  text: string;
  /** Whether it may be written once more, to the next generation. */
  readonly isKept: boolean;
  /** In UTF-8 bytes; undefined until the writer counts it. */
  byteLength: number | undefined;
  state: "queued" | "written" | "withdrawn";
}

export function outgoing(text: string): Outgoing {
  return { text, isKept: false, byteLength: undefined, state: "queued" };
}
