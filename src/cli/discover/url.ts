import type { SidecarErrorCode } from "../../errors.ts";
import { describeError } from "../../errors.ts";
import { parseJson } from "../../json/values.ts";
import { JsonRpcErrorCode } from "../../protocol/error-codes.ts";
import { isJsonObject, type JsonObject, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION, NEWEST_MODERN_PROTOCOL_VERSION } from "../../protocol/versions.ts";
import { type ClientInfo, DiscoverHandshake, HANDSHAKE_ID, HandshakeError } from "../../upstream/handshake/handshake.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import { exchange, type HttpAnswer, HttpError } from "./http.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, listTools, resultTextOf } from "./listing.ts";

/** Time limit of the DELETE of the session, which otherwise ends by itself. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = /^HTTP 401/;
const UNSUPPORTED_PROTOCOL_VERSION: SidecarErrorCode = "UNSUPPORTED_PROTOCOL_VERSION";

export interface UrlListingOptions extends ListingBounds {
  readonly url: URL;
  readonly token: string | undefined;
  /** The variable of the token, for the advice in errors. */
  readonly tokenVariable: string;
  readonly clientInfo: ClientInfo;
}

/**
 * Lists the tools of a running Streamable HTTP server: in a new session, which is ended, or without one if the server has no sessions.
 *
 * @throws DiscoverError if the listing fails.
 */
export async function listFromUrl(options: UrlListingOptions): Promise<Listing> {
  const endpoint = new Endpoint(options);
  const session = new UrlSession(endpoint);
  try {
    return await session.list();
  } catch (error) {
    if (!(error instanceof HttpError && needsModernClient(error.rpcError))) throw error;
  } finally {
    await session.end();
  }
  return listStateless(endpoint);
}

/** True for the answer to `initialize` of a server, or of a sidecar, that knows only revisions without sessions. */
function needsModernClient(error: JsonObject | undefined): boolean {
  const data = error?.["data"];
  return error?.["code"] === JsonRpcErrorCode.UnsupportedVersion || (isJsonObject(data) && data["code"] === UNSUPPORTED_PROTOCOL_VERSION);
}

/** The URL of a server, with the headers of all requests. */
class Endpoint {
  readonly clientInfo: ClientInfo;
  readonly headers: Record<string, string> = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  readonly #options: UrlListingOptions;

  constructor(options: UrlListingOptions) {
    this.#options = options;
    this.clientInfo = options.clientInfo;
    if (options.token !== undefined) this.headers["Authorization"] = `Bearer ${options.token}`;
  }

  /** Posts a request. @param message its JSON-RPC message, with an id. */
  async request(method: string, message: JsonObject): Promise<HttpAnswer & { readonly response: ResponseMessage }> {
    const { response, sessionId } = await this.post(method, message);
    if (response === undefined) throw this.error(method, "no response");
    return { response, sessionId };
  }

  async post(method: string, message: JsonObject): Promise<HttpAnswer> {
    const { url, signal } = this.#options;
    try {
      return await exchange({ url, method: "POST", headers: this.headers, message, signal });
    } catch (error) {
      if (signal.aborted) throw endedError(this.#options, method);
      const described = this.error(method, describeConnectionError(error));
      throw error instanceof HttpError ? new HttpError(described.message, error.rpcError) : described;
    }
  }

  async delete(): Promise<void> {
    const signal = AbortSignal.timeout(DELETE_TIMEOUT_MS);
    await exchange({ url: this.#options.url, method: "DELETE", headers: this.headers, signal });
  }

  error(method: string, reason: string): DiscoverError {
    const { url, token, tokenVariable } = this.#options;
    const advice = UNAUTHORIZED.test(reason) ? ` (${token === undefined ? "set" : "see"} ${tokenVariable})` : "";
    return new DiscoverError(`${url.origin}${url.pathname}: ${method}: ${reason}${advice}`);
  }
}

class UrlSession {
  readonly #endpoint: Endpoint;
  #lastId = 0;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  async list(): Promise<Listing> {
    const { clientInfo, headers } = this.#endpoint;
    const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities: {}, clientInfo };
    const { response, sessionId } = await this.#request("initialize", params);
    const resultText = resultTextOf(response, "initialize");
    const protocolVersion = response.outline.stringAt(Slot.protocolVersion);
    if (protocolVersion === undefined) throw this.#endpoint.error("initialize", "the response has no protocolVersion");
    if (sessionId !== undefined) headers["Mcp-Session-Id"] = sessionId;
    headers["MCP-Protocol-Version"] = protocolVersion;
    await this.#endpoint.post("notifications/initialized", { jsonrpc: "2.0", method: "notifications/initialized" });
    return listTools(protocolVersion, resultText, async (pageParams) => (await this.#request("tools/list", pageParams)).response);
  }

  /** Ends the session. Ignores errors: the server may not support DELETE, or have stopped. */
  async end(): Promise<void> {
    if (this.#endpoint.headers["Mcp-Session-Id"] !== undefined) await this.#endpoint.delete().catch(() => undefined);
  }

  #request(method: string, params: JsonObject): ReturnType<Endpoint["request"]> {
    return this.#endpoint.request(method, { jsonrpc: "2.0", id: ++this.#lastId, method, params });
  }
}

/** Lists the tools of a server without sessions (MCP 2026-07-28, basic/transports). Each request names its method in a header too. */
async function listStateless(endpoint: Endpoint): Promise<Listing> {
  const { clientInfo, headers } = endpoint;
  const discovery = new DiscoverHandshake(clientInfo);
  headers["MCP-Protocol-Version"] = NEWEST_MODERN_PROTOCOL_VERSION;
  const request = async (message: JsonObject): Promise<ResponseMessage> => {
    const method = String(message["method"]);
    headers["Mcp-Method"] = method;
    return (await endpoint.request(method, message)).response;
  };
  const discovered = await request(parseJson(discovery.begin()) as JsonObject);
  const { resultText, protocolVersion, requestMeta } = readDiscovery(discovery, discovered, endpoint);
  headers["MCP-Protocol-Version"] = protocolVersion;
  let lastId = HANDSHAKE_ID;
  return listTools(protocolVersion, resultText, (page) =>
    request({ jsonrpc: "2.0", id: ++lastId, method: "tools/list", params: { ...page, _meta: requestMeta } }),
  );
}

function readDiscovery(discovery: DiscoverHandshake, response: ResponseMessage, endpoint: Endpoint): UpstreamHandshake {
  try {
    return discovery.read(response, 1);
  } catch (error) {
    throw error instanceof HandshakeError ? endpoint.error("server/discover", error.message) : error;
  }
}

/** Describes a connection error. For a name with several addresses, its message is empty, and `errors` has one error per address. */
function describeConnectionError(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const message = describeError(first);
  return message === "" ? ((first as NodeJS.ErrnoException).code ?? "the connection failed") : message;
}
