import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { deadline } from "./adb.ts";
import { type Answer, MAX_DEPTH } from "./bundle.ts";
import type { OfferedTool } from "./catalog.ts";
import type { Provider, Providers } from "./providers.ts";
import { cleanLine } from "./text.ts";

const AUTHORIZE = "authorize";
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** The name of an action, not an option of `am`, nor a URI. */
const ACTION = /^[A-Za-z]\w*(?:\.\w+){1,20}$/;
const ACTIVITY_TIMEOUT_MS = 10_000;
const POLL_MS = 1000;

/** Advice for each code of CETP §2.4 and of the bridge. */
const ADVICE: Readonly<Record<string, string>> = {
  AUTH_REQUIRED: "The user must authorize in the app. Call the tool again after that.",
  PERMISSION_DENIED: "The app does not allow this. Do not call the tool again until the user has changed that in the app or on the device.",
  TOOL_NOT_FOUND: "List the tools again.",
  INVALID_ARGS: "Correct the arguments by the tool's schema, then call it again.",
  RATE_LIMITED: "Wait before the next call of a tool of this app.",
  INTERNAL_ERROR: "The app has failed. Another call may succeed.",
  TIMEOUT: "Call it again, or ask for less.",
  ANSWER_TOO_LARGE: "Ask for less.",
  BUSY: "Call it again in a few seconds.",
  CANCELLED: "Call it again if it is still needed.",
  DEVICE_UNAVAILABLE: "Connect the device, then call the tool again.",
  PROVIDER_UNAVAILABLE: "Open the app on the device, then call the tool again.",
};

type Failure = Extract<Answer, { status: "error" }>;
type Arguments = Readonly<Record<string, unknown>>;

export interface CallOptions {
  readonly providers: Providers;
  readonly timeoutMs: number;
  readonly authWaitMs: number;
  /** The capabilities of the client, if the context has none. */
  readonly capabilities: () => ClientCapabilities | undefined;
  /** Has the tools of an app listed again. */
  readonly reload: (packageName: string) => void;
}

/** Calls a tool. An app that needs an authorization has the user asked, and is then called again with the same request_id. */
export async function callTool(
  { provider, spec }: OfferedTool,
  args: Arguments,
  { mcpReq }: ServerContext,
  options: CallOptions,
): Promise<CallToolResult | InputRequiredResult> {
  const state = mcpReq.requestState<string>();
  const requestId = typeof state === "string" && UUID.test(state) ? state : randomUUID();
  if (!isShallow(args)) return failed({ status: "error", code: "INVALID_ARGS", message: "The arguments are nested too deeply." });
  const extras = { args: JSON.stringify(args), request_id: requestId };
  const execute = (): Promise<Answer> => options.providers.execute(provider, spec.name, extras, deadline(options.timeoutMs, mcpReq.signal));
  const response = inputResponse(mcpReq.inputResponses, AUTHORIZE);
  const action = response.kind === "elicit" ? response.action : undefined;
  if (action === "decline" || action === "cancel")
    return failed({ status: "error", code: "AUTH_REQUIRED", message: "The user did not authorize the app." });

  let answer = await execute();
  if (isUnauthorized(answer) && action === "accept") answer = await authorized(provider, answer, execute, options, mcpReq.signal);
  else if (isUnauthorized(answer)) {
    const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {};
    const { elicitation } = (envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined) ?? options.capabilities() ?? {};
    if (elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined))
      return inputRequired({ requestState: requestId, inputRequests: { [AUTHORIZE]: questionAbout(provider, answer) } });
  }
  if (answer.status === "success") return succeeded(answer.data, answer.value);
  if (answer.code === "TOOL_NOT_FOUND") options.reload(provider.packageName);
  return failed(answer);
}

/** The result for a name with a prefix that is not listed: its app or the device may have gone since the client listed it. */
export function notListed(isDeviceLost: boolean): CallToolResult {
  if (isDeviceLost) return failed({ status: "error", code: "DEVICE_UNAVAILABLE", message: "The device is not connected." });
  return failed({ status: "error", code: "TOOL_NOT_FOUND", message: "No app has this tool now." });
}

function isUnauthorized(answer: Answer): answer is Failure {
  return answer.status === "error" && answer.code === "AUTH_REQUIRED";
}

function questionAbout({ packageName }: Provider, { message, hint, intent }: Failure) {
  const texts = [message, hint ?? ""].map((text) => cleanLine(text, 300)).filter((text) => text !== "");
  const how = isAction(intent) ? "Accept to open the app on the device, and authorize there." : "Accept after that.";
  return inputRequired.elicit({
    message: `The app ${packageName} needs an authorization. It says: ${texts.join(" ")}\n${how}`,
    requestedSchema: { type: "object", properties: {} },
  });
}

/** Opens the activity that the app has named, only in the app itself, and calls again until the user has authorized. */
async function authorized(
  { packageName }: Provider,
  first: Failure,
  execute: () => Promise<Answer>,
  { providers, authWaitMs }: CallOptions,
  signal: AbortSignal,
): Promise<Answer> {
  if (!isAction(first.intent)) return first;
  if (!(await providers.startActivity(packageName, first.intent, deadline(ACTIVITY_TIMEOUT_MS, signal)).catch(() => false))) return first;
  const endMs = performance.now() + authWaitMs;
  for (;;) {
    const answer = await execute();
    if (!isUnauthorized(answer) || performance.now() > endMs) return answer;
    await delay(POLL_MS, undefined, { signal });
  }
}

function isAction(intent: string | undefined): intent is string {
  return intent !== undefined && ACTION.test(intent);
}

/** The data are text. An object is structured content besides. */
function succeeded(data: string, value: unknown): CallToolResult {
  const text = value === undefined ? data.replaceAll(/[^\P{C}\n\t]+/gu, " ") : data;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return { content: [{ type: "text", text }], ...(isObject ? { structuredContent: value } : {}) };
}

function isShallow(value: unknown, levels = MAX_DEPTH): boolean {
  if (typeof value !== "object" || value === null) return true;
  return levels > 0 && Object.values(value).every((each) => isShallow(each, levels - 1));
}

/** `CODE: message`, then the hint of the app, then the advice. */
function failed({ code, message, hint }: Failure): CallToolResult {
  const isKnown = Object.hasOwn(ADVICE, code);
  const shown = isKnown ? code : "INTERNAL_ERROR";
  const lines = [
    `${shown}: ${cleanLine(message, 500) || "The app gives no reason."}${isKnown ? "" : ` (${cleanLine(code, 40) || "no code"})`}`,
    ...(hint === undefined ? [] : [`The app says: ${cleanLine(hint, 300)}`]),
    ADVICE[shown] ?? "",
  ];
  return { isError: true, content: [{ type: "text", text: lines.join("\n") }] };
}
