// An MCP session, and the text of its HTTP requests.

import type { HttpConnection } from "./http-connection.ts";
import type { Endpoint } from "./load-contract.ts";

const PROTOCOL_VERSION = "2025-11-25";
export const MODERN_VERSION = "2026-07-28";

/** The headers of a call of `echo` without a session. */
const MODERN_HEADERS = `MCP-Protocol-Version: ${MODERN_VERSION}\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n`;

export class McpSession {
  readonly #target: string;
  #headers: string;

  private constructor({ port, path, token }: Endpoint) {
    this.#target = `${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n`;
    this.#headers = token === null ? "" : `Authorization: Bearer ${token}\r\n`;
  }

  static async open(connection: HttpConnection, endpoint: Endpoint): Promise<McpSession> {
    const session = new McpSession(endpoint);
    await session.#initialize(connection);
    return session;
  }

  /** Returns the sender of calls of `echo` without a session. */
  static stateless(endpoint: Endpoint): McpSession {
    const session = new McpSession(endpoint);
    session.#headers += MODERN_HEADERS;
    return session;
  }

  /** Returns a POST request. @param body ASCII only, so that its length is its size. */
  post(body: string): string {
    return (
      `POST ${this.#target}${this.#headers}` +
      "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" +
      `Content-Length: ${body.length}\r\n\r\n${body}`
    );
  }

  /** Returns a GET request, which opens an event stream. */
  get(): string {
    return `GET ${this.#target}${this.#headers}Accept: text/event-stream\r\n\r\n`;
  }

  /** Ends the session, so that a target with one server per session terminates the server. */
  async close(connection: HttpConnection): Promise<void> {
    await connection.exchange(`DELETE ${this.#target}${this.#headers}\r\n`);
  }

  async #initialize(connection: HttpConnection): Promise<void> {
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: "initialize",
      method: "initialize",
      params: {
        protocolVersion: PROTOCOL_VERSION,
        capabilities: {},
        clientInfo: { name: "bench-load", version: "1.0.0" },
      },
    });
    const answer = await connection.exchange(this.post(body));
    const text = answer.body.toString();
    if (answer.status !== 200 || !text.includes(`"protocolVersion":"${PROTOCOL_VERSION}"`)) {
      throw new Error(`initialize answered ${answer.status}: ${text.slice(0, 300)}`);
    }
    const sessionId = /\r\nmcp-session-id: *([^\r]+)/i.exec(answer.head)?.[1];
    if (sessionId !== undefined) this.#headers += `Mcp-Session-Id: ${sessionId}\r\n`;
    this.#headers += `MCP-Protocol-Version: ${PROTOCOL_VERSION}\r\n`;

    const accepted = await connection.exchange(this.post('{"jsonrpc":"2.0","method":"notifications/initialized"}'));
    if (accepted.status !== 202) {
      throw new Error(`notifications/initialized answered ${accepted.status}`);
    }
  }
}
