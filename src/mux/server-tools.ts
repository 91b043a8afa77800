import type { Defects } from "../defects.ts";
import type { JsonObject } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";
import { type Call, isSent } from "./call.ts";
import type { CallVerdict } from "./call-terms.ts";
import type { Dispatch } from "./dispatch.ts";
import { readCapabilities } from "./offer.ts";
import { MAX_OWN_RESULT_BYTES } from "./own-exchange.ts";
import type { ReadOnlyTools } from "./read-only-tools.ts";
import { ToolListing } from "./tool-listing.ts";
import type { Upstream, UpstreamHandshake } from "../upstream/port.ts";

/** The port to who has to know a server's tools before any request of a client reaches it. */
export interface ToolWatcher {
  /** The tools of the generation that runs, in its order: before all requests of clients, and again when it says that they have changed. */
  onTools(tools: readonly JsonObject[], generation: number): void;
  /** The server is gone, and its tools with it. */
  onLost(): void;
  /**
   * Looks at a call that was taken before the tools were known.
   *
   * @param isSent whether the former server may have seen it.
   * @returns what it is answered with, where it may not be sent.
   */
  review(call: Call, isSent: boolean): CallVerdict | undefined;
}

export interface ServerToolsOptions {
  readonly dispatch: Dispatch;
  readonly upstream: Upstream;
  readonly readOnlyTools: ReadOnlyTools | undefined;
  readonly watcher: ToolWatcher | undefined;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** How often a server that has said that its tools have changed may fail to tell them, one time after the other. */
const MAX_FAILURES = 3;

/**
 * What a lane knows of its server's tools, for those who need to know. Where there is a watcher, requests of clients wait until it does;
 * a server that does not tell its tools then is started again, as one that does not finish its handshake.
 */
export class ServerTools {
  readonly #options: ServerToolsOptions;
  readonly #listing: ToolListing | undefined;
  #handshake: UpstreamHandshake | undefined;
  #isInitialized = false;
  #isAsked = false;
  #failures = 0;

  constructor(options: ServerToolsOptions) {
    this.#options = options;
    const { dispatch, readOnlyTools, watcher, defects, log, nowMs } = options;
    if (readOnlyTools === undefined && watcher === undefined) return;
    this.#listing = new ToolListing({
      ask: (params, onResult) => dispatch.ask("tools/list", params, undefined, onResult),
      defects,
      log,
      nowMs,
      onListed: (tools, areOutdated) => this.#onListed(tools, areOutdated),
    });
  }

  /** Whether requests of clients wait until the server has told them. */
  get areAwaited(): boolean {
    return this.#options.dispatch.turns.areSlotsClosed;
  }

  /**
   * Asks for all tools once, for somebody who only looks on: no request of a client waits for it.
   *
   * @param timeoutMs for all pages together.
   * @returns undefined where no server is ready, or they were not told in time.
   */
  list(timeoutMs: number): Promise<readonly JsonObject[] | undefined> {
    if (!this.#hasToolsCapability) return Promise.resolve(this.#handshake === undefined ? undefined : []);
    const { dispatch, defects, log, nowMs } = this.#options;
    const endMs = nowMs() + timeoutMs;
    const ask = (params: object, onResult: (resultText: string | undefined) => void): void =>
      dispatch.ask("tools/list", params, undefined, onResult, { timeoutMs: Math.max(0, endMs - nowMs()) });
    return new Promise((onListed) => new ToolListing({ ask, defects, log, nowMs, onListed }).open());
  }

  /** To be called before anything is sent to a new generation. */
  onReady(handshake: UpstreamHandshake): void {
    this.#handshake = handshake;
    this.#failures = 0;
    const { dispatch, readOnlyTools, watcher } = this.#options;
    readOnlyTools?.forget();
    if (watcher === undefined) return;
    dispatch.turns.closeSlots();
    // A server that has tools must say so (MCP 2025-11-25, server/tools, capabilities); another one may not even answer if it is asked.
    if (!this.#hasToolsCapability) this.#tell([], true);
  }

  /** The server has heard that its client is initialized. */
  onInitialized(): void {
    this.#isInitialized = true;
    this.#open();
  }

  /** A request of a client waits: one that asks before it has said that it is initialized has the tools asked for as early. */
  onWaiting(): void {
    if (!this.#isAsked && this.#handshake !== undefined) this.#open();
  }

  onChanged(): void {
    if (!this.#isAsked) return;
    this.#options.readOnlyTools?.forget();
    this.#listing?.onChanged();
  }

  /** The server is gone. What it had told is kept for the calls it had; the next one is asked when it is ready. */
  onLost(): void {
    this.#handshake = undefined;
    this.#isInitialized = false;
    this.#isAsked = false;
    this.#listing?.close();
    this.#options.watcher?.onLost();
  }

  #open(): void {
    if (this.#options.watcher !== undefined && !this.#hasToolsCapability) return;
    this.#isAsked = true;
    this.#listing?.open();
  }

  #onListed(tools: readonly JsonObject[] | undefined, areOutdated: boolean): void {
    if (this.#handshake === undefined) return;
    if (tools === undefined) this.#onNotListed(this.#handshake);
    else this.#tell(tools, areOutdated);
  }

  #tell(tools: readonly JsonObject[], areOutdated: boolean): void {
    const { dispatch, readOnlyTools, watcher } = this.#options;
    this.#failures = 0;
    // An annotation that may be outdated is none.
    if (!areOutdated) readOnlyTools?.set(tools);
    if (watcher === undefined || this.#handshake === undefined) return;
    watcher.onTools(tools, this.#handshake.generation);
    // Also where they were open: what waits for a slot was taken when the tools were others.
    dispatch.turns.closeSlots();
    this.#review(watcher);
    dispatch.turns.openSlots();
  }

  #onNotListed({ generation }: UpstreamHandshake): void {
    const { dispatch, upstream, watcher, log } = this.#options;
    // One that is asked before its client is initialized may refuse, and is asked again.
    if (dispatch.turns.areSlotsClosed && !this.#isInitialized) return;
    this.#failures++;
    const isGivenUp = watcher !== undefined && (dispatch.turns.areSlotsClosed || this.#failures >= MAX_FAILURES);
    if (isGivenUp)
      return upstream.restart(
        "tools-not-listed",
        `tools/list was not answered with a list of tools of at most ${MAX_OWN_RESULT_BYTES} bytes a page`,
      );
    if (watcher !== undefined || this.#hasToolsCapability)
      log.warn({ method: "tools/list", generation }, "tools not listed: what was known of them stays");
    if (watcher !== undefined) this.#listing?.onChanged();
  }

  /** No slot is open: nothing is sent in the place of what is ended here. */
  #review(watcher: ToolWatcher): void {
    const { calls } = this.#options.dispatch;
    for (const call of calls.values()) {
      if (call.method !== "tools/call" || call.session === undefined || call.state === "written") continue;
      const verdict = watcher.review(call, isSent(call));
      if (verdict !== undefined) calls.answer(call, verdict);
    }
  }

  get #hasToolsCapability(): boolean {
    return this.#handshake !== undefined && readCapabilities(this.#handshake.resultText)["tools"] !== undefined;
  }
}
