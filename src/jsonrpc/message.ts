/** JSON-RPC 2.0 messages as MCP narrows them: ids are strings or numbers, params are objects (MCP 2025-11-25, basic/index). */
export type JsonRpcId = string | number;
export type JsonObject = Readonly<Record<string, unknown>>;

export interface RequestMessage {
  readonly kind: "request";
  readonly id: JsonRpcId;
  readonly method: string;
  readonly params: JsonObject | undefined;
}

export interface NotificationMessage {
  readonly kind: "notification";
  readonly method: string;
  readonly params: JsonObject | undefined;
}

export interface ResponseMessage {
  readonly kind: "response";
  /** Undefined for an error that answers nothing in particular (`id: null`, or no id at all). */
  readonly id: JsonRpcId | undefined;
  readonly result: unknown;
  readonly error: unknown;
}

export type Message = RequestMessage | NotificationMessage | ResponseMessage;

export interface InvalidMessage {
  readonly kind: "invalid";
  /** Says what is wrong, ready to be shown to the sender. */
  readonly reason: string;
  /** The id, when one can be read and given back. */
  readonly id: JsonRpcId | undefined;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isId(value: unknown): value is JsonRpcId {
  return typeof value === "string" || typeof value === "number";
}

/** Tells what a parsed JSON value is as a JSON-RPC message. Never throws; reads only the members of the envelope. */
export function classify(value: unknown): Message | InvalidMessage {
  if (!isJsonObject(value)) {
    return invalid(
      Array.isArray(value) ? "a batch (JSON array) is not accepted; send one message per request" : "the message must be a JSON object",
    );
  }
  const { id, method, params } = value;
  const readableId = isId(id) ? id : undefined;
  if (value["jsonrpc"] !== "2.0") return invalid('"jsonrpc" must be "2.0"', readableId);
  if (method === undefined) {
    if (!("result" in value) && !("error" in value))
      return invalid('the message has neither "method" nor "result" nor "error"', readableId);
    if (id !== undefined && id !== null && !isId(id)) return invalid('"id" must be a string or a number');
    return { kind: "response", id: readableId, result: value["result"], error: value["error"] };
  }
  if (typeof method !== "string") return invalid('"method" must be a string', readableId);
  if (params !== undefined && !isJsonObject(params)) return invalid('"params" must be an object', readableId);
  if (id === undefined) return { kind: "notification", method, params };
  if (!isId(id)) return invalid('"id" must be a string or a number');
  return { kind: "request", id, method, params };
}

function invalid(reason: string, id?: JsonRpcId): InvalidMessage {
  return { kind: "invalid", reason, id };
}
