// The honest part of the server: its protocol era, calls, questions and subscriptions.

import { META, MODERN_VERSION } from "../../test/support/modern-client.ts";
import {
  ASK_TOOL,
  ASKED_KEY,
  digestOf,
  ERA_FILE,
  ERA_VARIABLE,
  isAskAnswer,
  questionOf,
  SERVER_NAME,
  type ToolAnswer,
  type ToolArguments,
} from "../contract.ts";
import { readSwitch, say, sayLine } from "./process.ts";

const option = process.env[ERA_VARIABLE];
const mode = option === "changing" ? readSwitch(ERA_FILE) : option;
let era: "legacy" | "modern" | "open" = mode === "modern" ? "modern" : mode === "dual" ? "open" : "legacy";

export function isModern(): boolean {
  return era === "modern";
}

/** Decides an open era by the first request. A discovery decides nothing. */
export function decideEra(method: string, params: Readonly<Record<string, unknown>> | undefined): void {
  if (era !== "open" || method === "server/discover") return;
  const meta = params?.["_meta"] as Readonly<Record<string, unknown>> | undefined;
  era = meta?.[META.protocolVersion] === MODERN_VERSION ? "modern" : "legacy";
}

/** True if the process answers this method of the handshake. */
export function servesHandshake(method: "initialize" | "server/discover"): boolean {
  return method === "initialize" ? era !== "modern" : era !== "legacy";
}

/** The members that each result has. */
export function resultMembers(): object {
  return isModern() ? { resultType: "complete" } : {};
}

export function discoverResult(): object {
  return {
    resultType: "complete",
    supportedVersions: [MODERN_VERSION],
    capabilities: { tools: { listChanged: true }, resources: { subscribe: true }, logging: {} },
    ttlMs: 0,
    cacheScope: "private",
    _meta: { [META.serverInfo]: { name: SERVER_NAME, version: "1.0.0" } },
  };
}

export interface Call {
  readonly id: string | number;
  readonly arguments: ToolArguments;
  readonly progressToken: string | number | undefined;
}

/** Returns the right response to the call. @param padding further text of the result. */
export function answerLine({ id, arguments: { client, nonce, text } }: Call, padding?: string): string {
  const answer: ToolAnswer = { client, nonce, text, digest: digestOf({ client, nonce, text }), pid: process.pid };
  const content = [{ type: "text", text: JSON.stringify(answer) }];
  if (padding !== undefined) content.push({ type: "text", text: padding });
  return JSON.stringify({ jsonrpc: "2.0", id, result: { ...resultMembers(), content } });
}

export interface AskingCall extends Call {
  /** The client's answers in its request; undefined for none. */
  readonly inputResponses: Readonly<Record<string, unknown>> | undefined;
}

const asked = new Map<string, Call>();
let lastNumber = 0;

export function ask(call: AskingCall): void {
  const params = { mode: "form", message: questionOf(call.arguments), requestedSchema: { type: "object", properties: {} } };
  if (!isModern()) {
    const id = `${ASK_TOOL}-${process.pid}-${++lastNumber}`;
    asked.set(id, call);
    return say({ id, method: "elicitation/create", params });
  }
  const answer = call.inputResponses?.[ASKED_KEY];
  if (answer !== undefined) return respond(call, answer);
  const inputRequests = { [ASKED_KEY]: { method: "elicitation/create", params } };
  say({ id: call.id, result: { resultType: "input_required", inputRequests } });
}

export function onAnswer(id: string | number, result: unknown): void {
  const call = asked.get(String(id));
  asked.delete(String(id));
  if (call !== undefined) respond(call, result);
}

/** The answer to another question makes the response wrong. A question that was refused does not matter. */
function respond(call: Call, answer: unknown): void {
  const isForeign = isAskAnswer(answer) && answer.content.question !== questionOf(call.arguments);
  const { text } = call.arguments;
  sayLine(
    answerLine({
      ...call,
      arguments: { ...call.arguments, text: isForeign ? `the answer to ${answer.content.question}` : text },
    }),
  );
}

interface Filter {
  readonly toolsListChanged?: boolean;
  readonly resourceSubscriptions?: readonly string[];
}

/** The resources that sessions have subscribed to. */
export const subscribedUris = new Set<string>();
const filters = new Map<string | number, Filter>();

export function listen(id: string | number, filter: Filter): void {
  filters.set(id, filter);
  say({ method: "notifications/subscriptions/acknowledged", params: { ...metaOf(id), notifications: filter } });
}

export function endListen(id: unknown): void {
  filters.delete(id as string | number);
}

/** Announces a change of the tools and of each subscribed resource. */
export function announce(): void {
  if (!isModern()) {
    say({ method: "notifications/tools/list_changed" });
    for (const uri of subscribedUris) say({ method: "notifications/resources/updated", params: { uri } });
    return;
  }
  for (const [id, { toolsListChanged, resourceSubscriptions = [] }] of filters) {
    if (toolsListChanged === true) say({ method: "notifications/tools/list_changed", params: metaOf(id) });
    for (const uri of resourceSubscriptions) say({ method: "notifications/resources/updated", params: { ...metaOf(id), uri } });
  }
}

function metaOf(id: string | number): object {
  return { _meta: { [META.subscriptionId]: id } };
}
