import { SidecarError } from "../errors.ts";
import type { JsonObject, NotificationMessage, RequestMessage, ResponseMessage } from "../protocol/message.ts";
import type { CallLimits } from "../lane/calls/call-limits.ts";
import type { Exchange } from "../sessions/exchange.ts";
import { MAX_INTERNAL_RESULT_BYTES } from "../lane/calls/internal-exchange.ts";
import { responseTooLarge, toolNotFound } from "../lane/failures.ts";
import type { Session, SessionLane } from "../sessions/session.ts";
import { readCall } from "./call-params.ts";
import type { CallRules } from "./call-rules.ts";
import type { LaneTools } from "./lane-tools.ts";
import { withoutOutputSchemas } from "./tools/output-schemas.ts";
import { RewrittenExchange } from "./rewritten-exchange.ts";
import { filterToolsList } from "./tools/tool-list-answer.ts";

interface ToolLane extends SessionLane {
  request(session: Session, exchange: Exchange, request: RequestMessage, limits?: CallLimits): void;
  readonly tools: {
    /** Lists the server's tools again, because they have changed. */
    onChanged(): void;
  };
}

/** A lane behind the tool policy. Calls of clients pass the rules, the cheapest first, before the lane accepts them. */
export class GuardedLane implements SessionLane {
  readonly #lane: ToolLane;
  readonly #rules: CallRules;
  readonly #tools: LaneTools;

  constructor(lane: ToolLane, rules: CallRules, tools: LaneTools) {
    this.#lane = lane;
    this.#rules = rules;
    this.#tools = tools;
  }

  request(session: Session, exchange: Exchange, request: RequestMessage): void {
    const { method } = request;
    if (method === "tools/call") return this.#call(session, exchange, request);
    this.#lane.request(session, this.#watchAnswer(exchange, method), request);
  }

  respond(exchange: Exchange, member: "result" | "error", text: string): void {
    this.#lane.respond(exchange, member, text);
  }

  refuse(exchange: Exchange, error: SidecarError): void {
    // An error of one request in a batch takes room from the others.
    this.#lane.refuse(this.#rules.limitResult?.(exchange) ?? exchange, error);
  }

  notify(session: Session, notification: NotificationMessage): SidecarError | undefined {
    // A server might execute a call without an id, and a rejection by the rules could not be reported.
    if (notification.method === "tools/call") return new SidecarError("INVALID_REQUEST", '"tools/call" has no "id". It was not sent.');
    return this.#lane.notify(session, notification);
  }

  answer(response: ResponseMessage): SidecarError | undefined {
    return this.#lane.answer(response);
  }

  endSession(session: Session): void {
    this.#lane.endSession(session);
  }

  #call(session: Session, exchange: Exchange, request: RequestMessage): void {
    const { rates, limitsOf, limitResult } = this.#rules;
    const limited = limitResult === undefined ? exchange : limitResult(exchange);
    const call = readCall(request);
    if ("problem" in call) {
      return this.#lane.refuse(limited, new SidecarError("INVALID_REQUEST", `${call.problem}. The call was not sent.`));
    }
    const { name } = call;
    // A server that looks up the name as an object key takes `["search"]` for `"search"`; the rules would not.
    if (name === undefined) return this.#lane.refuse(limited, toolNotFound(name));
    const error = this.#tools.missing(name) ?? rates?.take(session, name);
    if (error !== undefined) return this.#lane.refuse(limited, error);
    const check = this.#tools.checkOf(session, name, call.argsText);
    this.#lane.request(session, limited, request, check === undefined ? limitsOf?.(name) : { ...limitsOf?.(name), check });
  }

  #watchAnswer(exchange: Exchange, method: string): Exchange {
    const { filter, limitResult } = this.#rules;
    // This is the result of a tool that runs as a task (MCP 2025-11-25, basic/utilities/tasks).
    if (method === "tasks/result") return limitResult === undefined ? exchange : limitResult(exchange);
    if (method !== "tools/list" || (filter === undefined && limitResult === undefined)) return exchange;
    return new RewrittenExchange(exchange, (body) => {
      // The sidecar does not read a longer list either, so that none of its tools could be called.
      const bytes = Buffer.byteLength(body);
      if (bytes > MAX_INTERNAL_RESULT_BYTES) return responseTooLarge(method, bytes, MAX_INTERNAL_RESULT_BYTES);
      const shown = filter === undefined ? body : filterToolsList(body, (tool) => this.#isShown(tool));
      return limitResult === undefined ? shown : withoutOutputSchemas(shown);
    });
  }

  #isShown(tool: JsonObject): boolean {
    // Calls are checked by the previous list. It must be requested again, or the tool could still be called.
    if (this.#tools.isOutdated(tool)) this.#lane.tools.onChanged();
    return this.#tools.isShown(tool);
  }
}
