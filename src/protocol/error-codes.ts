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
  /** A header of a request is missing or differs from the body (MCP 2026-07-28, basic/transports). */
  HeaderMismatch: -32020,
  /** The request needs a client capability that it does not declare (MCP 2026-07-28, basic). */
  MissingCapability: -32021,
  /** The revision of the request is not supported (MCP 2026-07-28, basic/versioning). */
  UnsupportedVersion: -32022,
} as const;
