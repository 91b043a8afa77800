import type { IncomingMessage } from "node:http";
import { SidecarError } from "../../errors.ts";
import { BATCH_REFUSED } from "../../protocol/client-message.ts";
import { idTextOf, type Message, type RequestMessage } from "../../protocol/message.ts";
import { shuttingDown } from "../../lane/failures.ts";
import { ROUTES } from "../../routes.ts";
import { rejectUnauthorized } from "../guards/access-guard.ts";
import { sendAccepted, sendError, sendProblem } from "../json-response.ts";
import type { LegacySsePair } from "./legacy-sse-pair.ts";
import type { LegacySsePairs } from "./legacy-sse-pairs.ts";
import type { McpRouteOptions } from "../endpoint/mcp-route.ts";
import { type MessageReceiver, readMessages } from "../endpoint/read-messages.ts";
import { forwardOneWay, forwardRequest } from "../endpoint/forward.ts";
import { holderOf, type NamedRoute, type Post } from "../route.ts";

export interface LegacySseRoutesOptions extends Omit<McpRouteOptions, "stateless"> {
  readonly pairs: LegacySsePairs;
}

/** Creates the routes of HTTP+SSE (MCP 2024-11-05, basic/transports), a deprecated transport for clients that support nothing newer. */
export function createLegacySseRoutes(options: LegacySseRoutesOptions): readonly NamedRoute[] {
  const { pairs, isDraining, memory, nowMs } = options;
  const messages = new LegacySseMessages(options);
  return [
    [
      "legacySse",
      // Ignores `Accept`: this path has only streams. Clients that try Streamable HTTP first get 405, and fall back to this GET.
      (request, response, principal) => {
        request.resume();
        if (isDraining()) sendError(response, shuttingDown("GET", false));
        else pairs.open(response, principal, memory.account(holderOf(request, principal)));
      },
    ],
    [
      "legacyMessages",
      (request, response, principal) => {
        const account = memory.account(holderOf(request, principal));
        readMessages({ request, response, principal, acceptedAtMs: nowMs(), memory: account, session: undefined }, options, messages);
      },
    ],
  ];
}

/** Handles the POST requests of HTTP+SSE clients. */
class LegacySseMessages implements MessageReceiver {
  readonly #options: LegacySseRoutesOptions;

  constructor(options: LegacySseRoutesOptions) {
    this.#options = options;
  }

  rejectLong({ request, response, principal }: Post): boolean {
    const pair = findPair(this.#options.pairs, request);
    if (pair instanceof SidecarError) sendError(response, pair);
    else if (pair.owner !== principal) rejectUnauthorized(request, response);
    else return false;
    return true;
  }

  onMessages(post: Post, messages: Message | Message[]): void {
    if (Array.isArray(messages)) return sendProblem(post.response, BATCH_REFUSED);
    const { pairs, isDraining } = this.#options;
    const { request, response, principal } = post;
    const idText = messages.kind === "request" ? idTextOf(messages) : undefined;
    // During the drain, the stream ends once the earlier requests are answered.
    if (messages.kind === "request" && isDraining()) return sendError(response, shuttingDown(messages.method, false), idText);
    const pair = findPair(pairs, request);
    if (pair instanceof SidecarError) return sendError(response, pair, idText);
    if (pair.owner !== principal) return rejectUnauthorized(request, response);
    if (messages.kind === "request" && messages.method === "initialize") this.#initialize(post, pair, messages);
    else this.#forward(post, pair, messages);
  }

  #initialize(post: Post, pair: LegacySsePair, message: RequestMessage): void {
    const { response, acceptedAtMs } = post;
    const { opener, observe, defects } = this.#options;
    if (pair.isInitialized) {
      const error = new SidecarError("INVALID_REQUEST", "This stream already has a session; open another stream for another session.");
      return sendError(response, error, idTextOf(message));
    }
    sendAccepted(response);
    pair.initialize(opener, message, acceptedAtMs, observe?.(post, message), defects);
  }

  #forward(post: Post, pair: LegacySsePair, message: Message): void {
    const { response, acceptedAtMs } = post;
    const { sessions, observe, defects, nowMs } = this.#options;
    const idText = message.kind === "request" ? idTextOf(message) : undefined;
    if (pair.session === undefined) {
      return sendError(response, sessionRequired("This stream has no session yet; call initialize first."), idText);
    }
    const session = sessions.use(pair.session.id, nowMs());
    if (session === undefined) return sendError(response, streamNotFound(), idText);
    if (message.kind === "request") {
      sendAccepted(response);
      const exchange = pair.openExchange(idTextOf(message), acceptedAtMs, observe?.(post, message, session));
      return forwardRequest(defects, session, exchange, message);
    }
    const error = forwardOneWay(session, message);
    if (error === undefined) sendAccepted(response);
    else sendError(response, error);
  }
}

function findPair(pairs: LegacySsePairs, { url = "" }: IncomingMessage): LegacySsePair | SidecarError {
  const id = new URLSearchParams(url.slice(url.indexOf("?") + 1)).get("sessionId");
  if (id === null) return sessionRequired(`The URL has no sessionId; open ${ROUTES.legacySse.path} and post to the URL that it names.`);
  return pairs.get(id) ?? streamNotFound();
}

function sessionRequired(message: string): SidecarError {
  return new SidecarError("SESSION_REQUIRED", message, {}, "sse");
}

function streamNotFound(): SidecarError {
  return new SidecarError("SESSION_NOT_FOUND", `This stream does not exist or has ended; open ${ROUTES.legacySse.path} again.`, {}, "sse");
}
