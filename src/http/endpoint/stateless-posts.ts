import { SidecarError } from "../../errors.ts";
import { isModernMessage } from "../../era/checks/message-era.ts";
import { checkModernRequest } from "../../era/checks/request-check.ts";
import type { StatelessRequests } from "../../era/stateless-requests.ts";
import type { Defects } from "../../observability/defects.ts";
import { idTextOf, type Message } from "../../protocol/message.ts";
import { isModernVersion } from "../../protocol/versions.ts";
import { modernErrorBody } from "../error-response.ts";
import { MODERN_FRONT } from "../front.ts";
import { rejectUnauthorized } from "../guards/access-guard.ts";
import { sendAccepted, sendRejection } from "../json-response.ts";
import type { SseConnections } from "../output/sse-connection.ts";
import type { UnreadOutput } from "../output/unread-output.ts";
import type { Observe } from "../request-log/observe.ts";
import type { Post } from "../route.ts";
import { acceptsEventStream, permitsEventStream } from "./content-negotiation.ts";
import { openStatelessStream } from "./event-streams.ts";
import { PostExchange } from "./post-exchange.ts";

export interface StatelessPostsOptions {
  readonly requests: Pick<StatelessRequests, "handle">;
  readonly connections: SseConnections;
  readonly unread: Pick<UnreadOutput, "count">;
  /** Undefined if nothing observes requests. */
  readonly observe: Observe | undefined;
  readonly defects: Defects;
}

/** Handles POST requests of the revisions without sessions (MCP 2026-07-28, basic/transports). */
export class StatelessPosts {
  readonly #options: StatelessPostsOptions;

  constructor(options: StatelessPostsOptions) {
    this.#options = options;
  }

  /** True if a body belongs to a revision without sessions, at least in part. */
  isFor({ request }: Post, messages: Message | readonly Message[]): boolean {
    const version = request.headers["mcp-protocol-version"]?.toString();
    if (Array.isArray(messages)) return isModernVersion(version) || messages.some((each: Message) => isModernMessage(each, version));
    return isModernMessage(messages as Message, version);
  }

  /** True if a body that has not arrived yet is read without a session. */
  isLong({ request }: Post): boolean {
    return isModernVersion(request.headers["mcp-protocol-version"]?.toString());
  }

  handle(post: Post, messages: Message | readonly Message[]): void {
    const { request, response, principal, memory, acceptedAtMs } = post;
    const { requests, connections, unread, observe, defects } = this.#options;
    if (Array.isArray(messages)) return this.#refuse(post, invalidRequest("A batch is not part of this revision"));
    const message = messages as Message;
    if (message.kind === "response") return this.#refuse(post, invalidRequest("A server of this revision asks no requests"));
    // It has no effect. A cancellation in particular could name the request of another client.
    if (message.kind === "notification") return sendAccepted(response);
    if (principal?.isRevoked === true) return rejectUnauthorized(request, response);
    const idText = idTextOf(message);
    const envelope = checkModernRequest(message, request.headers);
    if (envelope instanceof SidecarError) return this.#refuse(post, envelope, idText);
    const accepts = message.method === "subscriptions/listen" ? permitsEventStream : acceptsEventStream;
    const openStream = accepts(request) ? () => openStatelessStream(connections, response, memory) : undefined;
    const observed = observe?.(post, message);
    if (observed !== undefined) observed.revision = request.headers["mcp-protocol-version"]?.toString();
    const client = { front: MODERN_FRONT, response, memory, observed };
    const exchange = new PostExchange({ ...client, unread, defects, idText, acceptedAtMs, openStream });
    requests.handle({ request: message, envelope, headers: request.headers, exchange, memory, owner: principal });
  }

  #refuse({ response }: Post, error: SidecarError, idText?: string): void {
    sendRejection(response, error, modernErrorBody(error, idText));
  }
}

function invalidRequest(problem: string): SidecarError {
  return new SidecarError("INVALID_REQUEST", `${problem}. Send one request.`);
}
