import { shorten } from "../json/text.ts";
import { type Message, type RequestMessage, type ResponseMessage, Slot } from "../protocol/message.ts";
import { requestToServer } from "../protocol/rewrite.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION } from "../protocol/versions.ts";
import type { UpstreamHandshake } from "./port.ts";

/** The greatest length of a result, in UTF-16 units. The result is kept and sent to each client. */
const MAX_RESULT_LENGTH = 1024 * 1024;
const MAX_ERROR_LENGTH = 500;

/** The id of the handshake's request. Forwarded requests have positive ids. */
export const INITIALIZE_ID = 0;

export interface ClientInfo {
  readonly name: string;
  readonly version: string;
}

/** A handshake that failed although the server did not exit. */
export class HandshakeError extends Error {
  override readonly name = "HandshakeError";
  readonly kind: "handshake-refused" | "handshake-timeout";

  constructor(kind: HandshakeError["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}

/** The messages of a handshake, which begins each generation. */
export interface HandshakeScript {
  /** Has the id 0. */
  readonly request: string;
  /** Returns undefined if it is not known yet. The handshake does not wait for it. */
  initializedNotification(): string | undefined;
}

/** The sidecar's own handshake. It declares no client capabilities, because the clients of a shared server have different ones. */
export class SidecarHandshake implements HandshakeScript {
  readonly request: string;

  constructor(clientInfo: ClientInfo) {
    const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities: {}, clientInfo };
    this.request = JSON.stringify({ jsonrpc: "2.0", id: INITIALIZE_ID, method: "initialize", params });
  }

  initializedNotification(): string {
    return '{"jsonrpc":"2.0","method":"notifications/initialized"}';
  }
}

/** The handshake of a client with a private server: its own messages, unchanged except for the id. */
export class ClientHandshake implements HandshakeScript {
  readonly request: string;
  #initialized: string | undefined;

  /** @param initialize the request of the client. */
  constructor(initialize: RequestMessage) {
    this.request = requestToServer(initialize, INITIALIZE_ID);
  }

  /** Returns undefined until the client has sent it. */
  initializedNotification(): string | undefined {
    return this.#initialized;
  }

  /** Keeps the client's `notifications/initialized` for later generations. */
  keepInitialized(text: string): void {
    this.#initialized = text;
  }
}

/** True for the response to `initialize`, and for the request itself if the program echoes it. */
export function isInitializeResponse(message: Message): message is RequestMessage | ResponseMessage {
  return (message.kind === "response" || isEcho(message)) && message.id === INITIALIZE_ID;
}

/** A program such as `cat` echoes its input. */
function isEcho(message: Message): message is RequestMessage {
  return message.kind === "request" && message.method === "initialize";
}

/**
 * Reads the server's response to `initialize` (MCP 2025-11-25, basic/lifecycle).
 *
 * @param message the response or echo, with secrets masked.
 * @throws HandshakeError with a message for the operator if the response is an echo, a JSON-RPC error or not an InitializeResult.
 */
export function readHandshake(message: RequestMessage | ResponseMessage, generation: number): UpstreamHandshake {
  if (message.kind === "request") throw refused("the command echoes its input: it is not an MCP server");
  const { outline, isError } = message;
  if (isError) {
    throw refused(`the MCP server answered initialize with an error: ${shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH)}`);
  }
  const result = outline.span(Slot.result);
  const protocolVersion = outline.stringAt(Slot.protocolVersion);
  if (result === undefined || protocolVersion === undefined || !outline.isObject(Slot.result))
    throw refused("the MCP server answered initialize without a protocolVersion");
  if (result.end - result.start > MAX_RESULT_LENGTH)
    throw refused(`the MCP server's response to initialize has over ${MAX_RESULT_LENGTH} characters`);
  return { generation, resultText: outline.copyAt(Slot.result) ?? "{}", protocolVersion };
}

function refused(message: string): HandshakeError {
  return new HandshakeError("handshake-refused", message);
}
