/** The JSON-RPC error codes that the sidecar sends (JSON-RPC 2.0 §5.1; -32000 to -32099 are for implementations). */
export const JsonRpcErrorCode = {
  ParseError: -32700,
  InvalidRequest: -32600,
  MethodNotFound: -32601,
  InvalidParams: -32602,
  InternalError: -32603,
  /** `data.code` names the error. */
  ServerError: -32000,
  /** Used by MCP SDKs for a session that does not exist (HTTP 404), and for a request that timed out (HTTP 200). */
  SessionOrTimeout: -32001,
} as const;
