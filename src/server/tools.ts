import { shorten } from "../json/text.ts";
import { estimatedBytes, MAX_VALUE_BYTES, readValue } from "../json/value.ts";
import { SidecarError, type SidecarErrorCode } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject, type NotificationMessage, type RequestMessage, Slot } from "../mcp/message.ts";
import type { Transform } from "../session/reply.ts";
import type { Caller } from "../session/session.ts";
import { RateLimit, Timer } from "../timers.ts";
import type { Call, CallLimits, CallVerdict, Outcome } from "./call.ts";
import type { Calls } from "./calls.ts";

/** Reads the annotation of MCP (2025-11-25, schema, ToolAnnotations) or of a pod. A tool is not read-only if the two differ. */
export function isReadOnly(annotations: unknown): boolean {
  if (!isJsonObject(annotations)) return false;
  const marks = new Set([annotations["readOnlyHint"], annotations["readOnly"]]);
  return marks.has(true) && !marks.has(false);
}

/** If several tools have one name, all must fulfil the condition: it is unknown which one a call reaches. */
export function namesOf(tools: readonly JsonObject[], holds: (tool: JsonObject) => boolean): ReadonlySet<string> {
  const names = new Set<string>();
  const others = new Set<string>();
  for (const tool of tools) {
    const { name } = tool;
    if (typeof name === "string") (holds(tool) ? names : others).add(name);
  }
  return names.difference(others);
}

export const MAX_TOOLS = 10_000;
/** The discovery client of a pod reads lists of at most 4 MiB. */
export const MAX_PAGE_BYTES = 8 * 1024 * 1024;
const MAX_PAGES = 100;

export interface ToolList {
  /** In the server's order. Undefined if the pages are no list of tools, or too large. */
  readonly tools: readonly JsonObject[] | undefined;
  /** The reason, on one line, why the list is undefined or lacks some of the server's tools. */
  readonly problem: string | undefined;
  readonly code?: SidecarErrorCode | undefined;
}

/**
 * Reads all pages of `tools/list` (MCP 2025-11-25, server/utilities/pagination). Yields the parameters of the request for each page, and
 * takes the JSON text of its result. If a tool or a cursor is malformed, clients still get the other tools.
 */
export function* readToolPages(): Generator<JsonObject, ToolList, string> {
  const tools: JsonObject[] = [];
  const cursors = new Set<string>();
  let problem: string | undefined;
  let params = {};
  let valueBytes = 0;
  for (let page = 1; page <= MAX_PAGES; page++) {
    const resultText = yield params;
    const pageBytes = Buffer.byteLength(resultText);
    if (pageBytes > MAX_PAGE_BYTES) return noList(`page ${page} has ${pageBytes} bytes, more than ${MAX_PAGE_BYTES}`);
    // A character may take two bytes.
    valueBytes += estimatedBytes(resultText, MAX_VALUE_BYTES) + 2 * resultText.length;
    if (valueBytes > MAX_VALUE_BYTES) return noList(`too many values: they could take more than ${MAX_VALUE_BYTES} bytes of memory`);
    const result = readValue(resultText);
    const { tools: list, nextCursor } = isJsonObject(result) ? result : {};
    if (!Array.isArray(list)) return noList(`page ${page} has no list of tools`);
    for (const [index, tool] of list.slice(0, MAX_TOOLS + 1).entries()) {
      if (isJsonObject(tool)) tools.push(tool);
      else problem ??= `tool ${index + 1} of page ${page} is not an object`;
    }
    if (tools.length > MAX_TOOLS) return { tools: tools.slice(0, MAX_TOOLS), problem: `more than ${MAX_TOOLS} tools` };
    // Some servers write an empty cursor for the last page, and would return the first page for it.
    const cursor = nextCursor ?? "";
    if (cursor === "") return { tools, problem };
    if (typeof cursor !== "string") return { tools, problem: `the nextCursor of page ${page} is not a string` };
    if (cursors.has(cursor)) return { tools, problem: `page ${page} repeats an earlier cursor; the list would never end` };
    cursors.add(cursor);
    params = { cursor };
  }
  return { tools, problem: `more than ${MAX_PAGES} pages` };
}

function noList(problem: string): ToolList {
  return { tools: undefined, problem };
}

export interface LanePolicy {
  readonly needsTools: boolean;
  /** @param listAgain lists the tools again, because they have changed. @returns what changes the response, if anything does. */
  transformOf(method: string, listAgain: () => void): Transform | undefined;
  /**
   * Decides on a client's message before the lane accepts it. The calls of one `caller` share a rate.
   *
   * @returns the error if it is rejected; otherwise the limits of a call, if it has any.
   */
  admit(caller: Caller, message: RequestMessage | NotificationMessage): SidecarError | CallLimits | undefined;
  /** Called before any client request of a generation, and after each change. */
  onTools(tools: readonly JsonObject[], generation: number): void;
  onLost(): void;
  /** Reviews a call that was accepted before the tools were known. @returns the response if it must not be sent. */
  review(call: Call, isSent: boolean): CallVerdict | undefined;
}

/** A server may report a change of its tools after every listing. A burst may have the same number. */
const LISTINGS_PER_MINUTE = 60;
/** After so many listings that changes outdated, the list is used although it is outdated. */
const MAX_RESTARTS = 3;

const MAX_FAILURES = 3;

/** Tools with longer names are not kept. In UTF-16 units. */
const MAX_NAME_LENGTH = 1000;
const MAX_ERROR_LENGTH = 500;

/**
 * The tools of a lane's current generation. If there is a watcher, client requests wait until it has them. A server that answers without
 * tools is restarted. One that does not answer in time is asked again: `HangWatch` decides if it is alive.
 */
export class ServerTools {
  version = 0;
  readonly #calls: Calls;
  readonly #watcher: LanePolicy | undefined;
  #isInitialized = false;
  /** True once the tools are listed, and again after each change. */
  #isOpen = false;
  #isListing = false;
  #isOutdated = false;
  #restarts = 0;
  #failures = 0;
  readonly #rate = new RateLimit(LISTINGS_PER_MINUTE);
  readonly #delayed: Timer;

  /** @param watcher the policy if it needs the tools. With RETRY=read-only, tools are listed even without one. */
  constructor(calls: Calls, watcher: LanePolicy | undefined) {
    this.#calls = calls;
    this.#watcher = watcher;
    const listAgain = (): void => {
      this.#isListing = false;
      this.#listAgain();
    };
    this.#delayed = new Timer(calls.context, () => this.#guard(listAgain, this.#onListed));
  }

  get areAwaited(): boolean {
    return this.#calls.queue.blocks.has("tools");
  }

  /** Client requests are not delayed. @param timeoutMs for all pages together. */
  list(timeoutMs: number): Promise<ToolList> {
    if (!this.#calls.queue.isReady) return Promise.resolve(noList("the server is not ready"));
    if (!this.#hasToolsCapability) return Promise.resolve({ tools: [], problem: undefined });
    const { nowMs } = this.#calls.context;
    const endMs = nowMs() + timeoutMs;
    return new Promise((resolve) => this.#ask(resolve, () => ({ timeoutMs: Math.max(0, endMs - nowMs()) })));
  }

  onReady(): void {
    this.version++;
    this.#failures = 0;
    this.#calls.readOnlyTools = new Set();
    if (this.#watcher === undefined) return;
    this.#calls.queue.blocks.add("tools");
    // A server with tools must declare them (MCP 2025-11-25, server/tools, capabilities). One without may not even answer tools/list.
    if (!this.#hasToolsCapability) this.#onTools([], true);
  }

  /** The server must not get requests before `notifications/initialized`. */
  onInitialized(): void {
    this.#isInitialized = true;
    if (this.#watcher === undefined ? this.#calls.context.config.retry !== "read-only" : !this.#hasToolsCapability) return;
    this.#isOpen = true;
    this.#listAgain();
  }

  /** A client may not be initialized yet when its request waits. The tools are then listed before that, too. */
  onWaiting(): void {
    if (this.#isOpen || !this.#calls.queue.isReady || !this.#hasToolsCapability) return;
    this.#isOpen = true;
    this.#listAgain();
  }

  onChanged(): void {
    this.version++;
    if (!this.#isOpen) return;
    this.#calls.readOnlyTools = new Set();
    this.#listAgain();
  }

  /** A listing that fails from now on says nothing about the server. The read-only tools are kept for the calls that were in flight. */
  onLost(): void {
    this.#watcher?.onLost();
    this.#isInitialized = this.#isOpen = this.#isOutdated = false;
    this.#restarts = 0;
    if (this.#delayed.atMs !== Infinity) this.#isListing = false;
    this.#delayed.clear();
  }

  #listAgain(): void {
    if (!this.#isOpen) return;
    this.#isOutdated = this.#isListing;
    if (this.#isListing) return;
    this.#isListing = true;
    const nowMs = this.#calls.context.nowMs();
    const waitMs = this.#rate.take(nowMs);
    if (waitMs === undefined) this.#ask(this.#onListed);
    else this.#delayed.set(nowMs + waitMs);
  }

  /** @param limits those of each request. Without them, a listing ends early if it must begin again. */
  #ask(onListed: (list: ToolList) => void, limits?: () => CallLimits): void {
    const pages = readToolPages();
    const read = (text: string): void => {
      const { done, value } = pages.next(text);
      if (done !== true) return void this.#calls.requestOwn("tools/list", value, onEnded, limits?.());
      const { tools, problem } = value;
      if (tools !== undefined && problem !== undefined)
        this.#calls.context.log.warn({ method: "tools/list", count: tools.length, reason: problem }, "tools/list is not complete");
      onListed(value);
    };
    const onOutcome = (outcome: Outcome): void => {
      if (outcome instanceof SidecarError) return onListed({ ...noList(outcome.message), code: outcome.code });
      if (typeof outcome === "string" || "resultText" in outcome) return onListed(noList("its request was given up"));
      const { outline } = outcome;
      const text = outline.textAt(Slot.result);
      if (text === undefined)
        onListed(noList(`the server answered with an error: ${shorten(outline.textAt(Slot.error) ?? "", MAX_ERROR_LENGTH)}`));
      else if (limits === undefined && this.#isOutdated && this.#restarts < MAX_RESTARTS)
        onListed({ tools: undefined, problem: undefined });
      else read(text);
    };
    const onEnded: Call["onEnded"] = (_hasResult, outcome) => this.#guard(() => onOutcome(outcome), onListed);
    read("");
  }

  /** Without it, a defect would keep all later listings waiting for this one. */
  #guard(handle: () => void, onListed: (list: ToolList) => void): void {
    this.#calls.context.defects.guard("tool listing", handle, () => onListed(noList("defect of the sidecar")));
  }

  readonly #onListed = ({ tools, problem = "no result", code }: ToolList): void => {
    this.#isListing = false;
    if (!this.#isOpen) return;
    if (this.#isOutdated && this.#restarts < MAX_RESTARTS) {
      this.#restarts++;
      return this.#listAgain();
    }
    const areOutdated = this.#isOutdated;
    this.#isOutdated = false;
    if (!areOutdated) this.#restarts = 0;
    if (tools === undefined) this.#onNotListed(problem, code === "REQUEST_TIMEOUT");
    else this.#onTools(tools, areOutdated);
    if (areOutdated) this.#listAgain();
  };

  #onTools(tools: readonly JsonObject[], areOutdated: boolean): void {
    const calls = this.#calls;
    const { queue } = calls;
    this.#failures = 0;
    // Outdated annotations must not be used.
    if (!areOutdated)
      calls.readOnlyTools = namesOf(tools, ({ name, annotations }) => String(name).length <= MAX_NAME_LENGTH && isReadOnly(annotations));
    if (this.#watcher === undefined) return;
    this.#watcher.onTools(tools, calls.lastHandshake?.generation ?? 0);
    // Queued calls were accepted with the former tools, so they need a review even if the queue was not blocked.
    queue.blocks.add("tools");
    this.#review(this.#watcher);
    queue.unblock("tools");
  }

  #onNotListed(problem: string, isTimeout: boolean): void {
    const watcher = this.#watcher;
    // A server may reject tools/list before its client is initialized. It is asked again then.
    if (this.areAwaited && !this.#isInitialized) return;
    if (!isTimeout) this.#failures++;
    const isGivenUp = !isTimeout && (this.areAwaited || this.#failures >= MAX_FAILURES);
    if (watcher !== undefined && isGivenUp)
      return this.#calls.upstream.restart("tools-not-listed", `tools/list did not return the tools: ${problem}`);
    if (!this.areAwaited && (watcher !== undefined || this.#hasToolsCapability)) {
      this.#calls.context.log.warn(
        { method: "tools/list", generation: this.#calls.lastHandshake?.generation, reason: problem },
        "tools not listed: the known tools stay in effect",
      );
    }
    if (watcher !== undefined) this.#listAgain();
  }

  /** The queue is blocked, so ending a call does not send another one. */
  #review(watcher: LanePolicy): void {
    const calls = this.#calls;
    for (const call of calls.values()) {
      if (call.method !== "tools/call" || call.kind === "sidecar" || call.isWritten) continue;
      const verdict = watcher.review(call, call.isSent);
      if (verdict !== undefined) calls.answer(call, verdict);
    }
  }

  get #hasToolsCapability(): boolean {
    return this.#calls.capabilities["tools"] !== undefined;
  }
}
