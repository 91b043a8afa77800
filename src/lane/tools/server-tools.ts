import type { SidecarErrorCode } from "../../errors.ts";
import type { Defects } from "../../observability/defects.ts";
import type { JsonObject } from "../../protocol/message.ts";
import type { Log } from "../../observability/log.ts";
import { isSent } from "../calls/call.ts";
import type { Dispatch } from "../dispatch.ts";
import type { LanePolicy } from "../lane-policy.ts";
import { readCapabilities } from "../handshake/capabilities.ts";
import type { OnInternalResult } from "../internal/internal-exchange.ts";
import type { RetryMode } from "../calls/retry-mode.ts";
import { isReadOnly, namesOf } from "./tool-annotations.ts";
import { listTools, ToolListing } from "./tool-listing.ts";
import type { Upstream, UpstreamHandshake } from "../../upstream/port.ts";

export interface ServerToolsOptions {
  readonly dispatch: Dispatch;
  readonly upstream: Upstream;
  /** With "read-only", the tools are listed even without a watcher. */
  readonly retry: RetryMode;
  /** The policy of the lane if it needs the tools. */
  readonly watcher: LanePolicy | undefined;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** The maximum number of consecutive answers without the changed tools. */
const MAX_FAILURES = 3;

/** Tools with longer names are not kept. In UTF-16 units. */
const MAX_NAME_LENGTH = 1000;

/**
 * The tools of a lane's current generation. If there is a watcher, client requests wait until it has the tools. A server that answers without
 * them is then restarted. One that does not answer in time is asked again: `HangWatch` decides if it is still alive.
 */
export class ServerTools {
  readonly #options: ServerToolsOptions;
  /** Undefined if the tools are not needed. */
  readonly #listing: ToolListing | undefined;
  #handshake: UpstreamHandshake | undefined;
  #isInitialized = false;
  #failures = 0;
  /** The tools that the server has annotated as read-only. Empty until all tools are listed, and while they are outdated. */
  #readOnlyNames: ReadonlySet<string> = new Set();

  constructor(options: ServerToolsOptions) {
    this.#options = options;
    const { dispatch, retry, watcher, defects, log, nowMs } = options;
    if (retry !== "read-only" && watcher === undefined) return;
    this.#listing = new ToolListing({
      ask: (params, onResult) => dispatch.internal.ask("tools/list", params, undefined, onResult),
      defects,
      log,
      nowMs,
      onListed: (...listed) => this.#onListed(...listed),
    });
  }

  /** True while client requests wait for the server's tools. */
  get areAwaited(): boolean {
    return this.#options.dispatch.queue.isBlockedBy("tools");
  }

  /** True if every tool of this name is certainly read-only. */
  isReadOnly(toolName: string | undefined): boolean {
    return toolName !== undefined && this.#readOnlyNames.has(toolName);
  }

  /**
   * Lists all tools once, without delaying client requests.
   *
   * @param timeoutMs the timeout for all pages together.
   * @returns undefined if no server is ready, or it did not list its tools in time.
   */
  list(timeoutMs: number): Promise<readonly JsonObject[] | undefined> {
    if (!this.#hasToolsCapability) return Promise.resolve(this.#handshake === undefined ? undefined : []);
    const { dispatch, log, nowMs } = this.#options;
    const endMs = nowMs() + timeoutMs;
    const ask = (params: object, onResult: OnInternalResult): void =>
      void dispatch.internal.ask("tools/list", params, undefined, onResult, { timeoutMs: Math.max(0, endMs - nowMs()) });
    return new Promise((resolve) => listTools(ask, log, (tools) => resolve(tools)));
  }

  /** Must be called before anything is sent to a new generation. */
  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    this.#failures = 0;
    this.#readOnlyNames = new Set();
    const { dispatch, watcher } = this.#options;
    if (watcher === undefined) return;
    dispatch.queue.block("tools");
    // A server with tools must declare them (MCP 2025-11-25, server/tools, capabilities). One without may not even answer tools/list.
    if (!this.#hasToolsCapability) this.#onTools([], true);
  }

  /** Called when `notifications/initialized` was sent. */
  onInitialized(): void {
    this.#isInitialized = true;
    this.#open();
  }

  /** Called when a client request waits. Its client may not be initialized yet; the tools are then listed before that, too. */
  onWaiting(): void {
    if (this.#listing?.isOpen === false && this.#handshake !== undefined) this.#open();
  }

  onChanged(): void {
    if (this.#listing?.isOpen !== true) return;
    this.#readOnlyNames = new Set();
    this.#listing.onChanged();
  }

  /** Called when the server is lost. Its read-only tools are kept for the calls that were in flight. */
  onLost(): void {
    this.close();
    this.#options.watcher?.onLost();
  }

  /** Stops listing. A listing that fails from now on says nothing about the server. */
  close(): void {
    this.#handshake = undefined;
    this.#isInitialized = false;
    this.#listing?.close();
  }

  #open(): void {
    if (this.#options.watcher !== undefined && !this.#hasToolsCapability) return;
    this.#listing?.open();
  }

  #onListed(tools: readonly JsonObject[] | undefined, areOutdated: boolean, problem = "no result", code?: SidecarErrorCode): void {
    if (this.#handshake === undefined) return;
    if (tools === undefined) this.#onNotListed(this.#handshake, problem, code === "REQUEST_TIMEOUT");
    else this.#onTools(tools, areOutdated);
  }

  #onTools(tools: readonly JsonObject[], areOutdated: boolean): void {
    const { dispatch, watcher } = this.#options;
    this.#failures = 0;
    // Outdated annotations must not be used.
    if (!areOutdated) this.#readOnlyNames = namesOf(tools, isReadOnlyTool);
    if (watcher === undefined || this.#handshake === undefined) return;
    watcher.onTools(tools, this.#handshake.generation);
    // Even if the slots were open: queued calls were accepted with the former tools, and need a review.
    dispatch.queue.block("tools");
    this.#review(watcher);
    dispatch.queue.unblock("tools");
  }

  #onNotListed({ generation }: UpstreamHandshake, problem: string, isTimeout: boolean): void {
    const { upstream, watcher, log } = this.#options;
    // A server may reject tools/list before its client is initialized. It is asked again after that.
    if (this.areAwaited && !this.#isInitialized) return;
    if (!isTimeout) this.#failures++;
    const isGivenUp = !isTimeout && (this.areAwaited || this.#failures >= MAX_FAILURES);
    if (watcher !== undefined && isGivenUp) return upstream.restart("tools-not-listed", `tools/list did not return the tools: ${problem}`);
    if (!this.areAwaited && (watcher !== undefined || this.#hasToolsCapability))
      log.warn({ method: "tools/list", generation, reason: problem }, "tools not listed: the known tools stay in effect");
    if (watcher !== undefined) this.#listing?.onChanged();
  }

  /** Reviews all queued calls. The slots are closed, so ending a call does not send another one. */
  #review(watcher: LanePolicy): void {
    const { calls } = this.#options.dispatch;
    for (const call of calls.values()) {
      if (call.method !== "tools/call" || call.origin === "sidecar" || call.state === "written") continue;
      const verdict = watcher.review(call, isSent(call));
      if (verdict !== undefined) calls.answer(call, verdict);
    }
  }

  get #hasToolsCapability(): boolean {
    return this.#handshake !== undefined && readCapabilities(this.#handshake.resultText)["tools"] !== undefined;
  }
}

function isReadOnlyTool({ name, annotations }: JsonObject): boolean {
  return String(name).length <= MAX_NAME_LENGTH && isReadOnly(annotations);
}
