/** JSON-RPC error codes that are written by this program (JSON-RPC 2.0 §5.1; -32000…-32099 is for implementations). */
export const JsonRpcErrorCode = {
  ParseError: -32700,
  InvalidRequest: -32600,
  MethodNotFound: -32601,
  InvalidParams: -32602,
  InternalError: -32603,
  /** What went wrong is in `data.code`. */
  ServerError: -32000,
  /** As MCP SDKs use it: a session that is gone (with HTTP 404), a request that timed out (with HTTP 200). */
  SessionOrTimeout: -32001,
} as const;
