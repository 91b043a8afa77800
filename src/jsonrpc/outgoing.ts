/**
 * One line on its way to the MCP server's stdin, and how far it has come. The writer moves it from `queued` to `written`; whoever
 * made it may withdraw it while it is queued. Only `written` means that the server may have seen it.
 */
export interface Outgoing {
  /** One JSON-RPC message without its newline. */
  readonly text: string;
  state: "queued" | "written" | "withdrawn";
}

export function outgoing(text: string): Outgoing {
  return { text, state: "queued" };
}
