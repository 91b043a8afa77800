import { describeError } from "../../errors.ts";
import { type JsonObject, type ResponseMessage, Slot } from "../../protocol/message.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION } from "../../protocol/versions.ts";
import type { ClientInfo } from "../../upstream/handshake.ts";
import { exchange, type HttpAnswer } from "./http.ts";
import { DiscoverError, endedError, type Listing, type ListingBounds, listTools, resultTextOf } from "./listing.ts";

/** Time limit of the DELETE of the session, which otherwise ends by itself. */
const DELETE_TIMEOUT_MS = 2000;
const UNAUTHORIZED = /^HTTP 401/;

export interface UrlListingOptions extends ListingBounds {
  readonly url: URL;
  readonly token: string | undefined;
  /** The variable of the token, for the advice in errors. */
  readonly tokenVariable: string;
  readonly clientInfo: ClientInfo;
}

/**
 * Lists the tools of a running Streamable HTTP server in a new session, and ends the session.
 *
 * @throws DiscoverError if the listing fails.
 */
export async function listFromUrl(options: UrlListingOptions): Promise<Listing> {
  const session = new UrlSession(options);
  try {
    return await session.list();
  } finally {
    await session.end();
  }
}

class UrlSession {
  readonly #options: UrlListingOptions;
  readonly #headers: Record<string, string> = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
  };
  #lastId = 0;

  constructor(options: UrlListingOptions) {
    this.#options = options;
    if (options.token !== undefined) this.#headers["Authorization"] = `Bearer ${options.token}`;
  }

  async list(): Promise<Listing> {
    const { clientInfo } = this.#options;
    const params = { protocolVersion: NEWEST_LEGACY_PROTOCOL_VERSION, capabilities: {}, clientInfo };
    const { response, sessionId } = await this.#request("initialize", params);
    const resultText = resultTextOf(response, "initialize");
    const protocolVersion = response.outline.stringAt(Slot.protocolVersion);
    if (protocolVersion === undefined) throw this.#error("initialize", "the response has no protocolVersion");
    if (sessionId !== undefined) this.#headers["Mcp-Session-Id"] = sessionId;
    this.#headers["MCP-Protocol-Version"] = protocolVersion;
    await this.#post("notifications/initialized", { jsonrpc: "2.0", method: "notifications/initialized" });
    return listTools(protocolVersion, resultText, async (pageParams) => (await this.#request("tools/list", pageParams)).response);
  }

  /** Ends the session. Ignores errors: the server may not support DELETE, or have stopped. */
  async end(): Promise<void> {
    if (this.#headers["Mcp-Session-Id"] === undefined) return;
    const signal = AbortSignal.timeout(DELETE_TIMEOUT_MS);
    await exchange({ url: this.#options.url, method: "DELETE", headers: this.#headers, signal }).catch(() => undefined);
  }

  async #request(method: string, params: JsonObject): Promise<HttpAnswer & { readonly response: ResponseMessage }> {
    const { response, sessionId } = await this.#post(method, { jsonrpc: "2.0", id: ++this.#lastId, method, params });
    if (response === undefined) throw this.#error(method, "no response");
    return { response, sessionId };
  }

  async #post(method: string, message: JsonObject): Promise<HttpAnswer> {
    const { url, signal } = this.#options;
    try {
      return await exchange({ url, method: "POST", headers: this.#headers, message, signal });
    } catch (error) {
      if (signal.aborted) throw endedError(this.#options, method);
      throw this.#error(method, describeConnectionError(error));
    }
  }

  #error(method: string, reason: string): DiscoverError {
    const { url, token, tokenVariable } = this.#options;
    const advice = UNAUTHORIZED.test(reason) ? ` (${token === undefined ? "set" : "see"} ${tokenVariable})` : "";
    return new DiscoverError(`${url.origin}${url.pathname}: ${method}: ${reason}${advice}`);
  }
}

/** Describes a connection error. For a name with several addresses, its message is empty, and `errors` has one error per address. */
function describeConnectionError(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const message = describeError(first);
  return message === "" ? ((first as NodeJS.ErrnoException).code ?? "the connection failed") : message;
}
