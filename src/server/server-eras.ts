import type { Context } from "../context.ts";
import { type AskKinds, offeredKinds } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { ServerEra, UpstreamHandshake, UpstreamObserver } from "../process/port.ts";
import type { AskingLanes } from "./asking-lanes.ts";
import type { HeldRequest } from "./calls.ts";
import { shuttingDown } from "./failures.ts";
import type { Lane } from "./lane.ts";
import type { EraLane, Target } from "./stateless-client.ts";

/**
 * The lanes for requests without a session, by the era of the server. The shared process gets `initialize` first. If it is of the legacy
 * era, a second process gets `server/discover` at the first request that needs it: some servers exit, are silent, or can never have a
 * session after that. The verdict is kept (MCP 2026-07-28, basic/transports/stdio).
 */
export class ServerEras {
  readonly #context: Context;
  readonly shared: EraLane;
  /** The servers that may ask their clients. Undefined if none may. */
  readonly asking: AskingLanes | undefined;
  readonly #startModern: (observer: UpstreamObserver) => EraLane;
  /** The lane of the second process, while it is probed or if it is of the modern era. */
  modern: EraLane | undefined;
  /** The verdict on the second process; undefined until it is known. */
  #verdict: ServerEra | undefined;
  #hasBeenModern = false;
  /** The time after which the verdict `legacy` ends, and the server is asked again. */
  #askAgainAtMs = Number.POSITIVE_INFINITY;
  /** The target of the last request, reused while the handshake is the same. */
  #target: Target | undefined;
  #isStopping = false;

  /** @param startModern starts a second process, which gets a discovery first. */
  constructor(context: Context, shared: EraLane, asking: AskingLanes | undefined, startModern: (observer: UpstreamObserver) => EraLane) {
    this.#context = context;
    this.shared = shared;
    this.asking = asking;
    this.#startModern = startModern;
    const { childEra, isolation } = context.config;
    // With ISOLATION=shared, the shared process is the only one.
    if (childEra !== "auto" || isolation === "shared") this.#verdict = "legacy";
  }

  /** The era of the server for requests without a session; undefined until it is known. */
  get era(): ServerEra | undefined {
    const shared = this.shared.lane.calls.lastHandshake?.era;
    return shared === "modern" ? shared : shared === undefined ? undefined : this.#verdict;
  }

  /**
   * Finds the lane for a request. It waits until the server is ready for the first time, and until its era is known.
   *
   * @param declared the questions that the client can answer.
   */
  find(client: HeldRequest, declared: AskKinds, onFound: (target: Target) => void, onFailed: (error: SidecarError) => void): void {
    const { shared, asking } = this;
    const handshake = shared.lane.calls.lastHandshake;
    if (handshake === undefined) return shared.lane.whenReady(client, () => this.find(client, declared, onFound, onFailed), onFailed);
    if (handshake.era === "modern") return onFound(this.#targetOf(shared, handshake));
    const findLegacy = (): void => {
      const kinds = offeredKinds(declared);
      if (kinds === 0 || asking === undefined) onFound(this.#targetOf(shared, handshake));
      else asking.find(kinds, client, onFound, onFailed);
    };
    if (this.#verdict === "legacy" && this.#context.nowMs() >= this.#askAgainAtMs) this.#verdict = undefined;
    if (this.#verdict === "legacy") return findLegacy();
    if (this.modern === undefined && this.#context.draining.aborted) return onFailed(shuttingDown(client.request.method, false));
    const modern = (this.modern ??= this.#probe());
    const known = modern.lane.calls.lastHandshake;
    if (known !== undefined) return onFound(this.#targetOf(modern, known));
    const onReady = (): void => this.find(client, declared, onFound, onFailed);
    modern.lane.whenReady(client, onReady, (error) => {
      if (this.#verdict === "legacy" && !this.#isEnding) findLegacy();
      else onFailed(error);
    });
  }

  /** All lanes but the shared one. */
  get lanes(): Lane[] {
    return [...(this.modern === undefined ? [] : [this.modern.lane]), ...(this.asking?.lanes ?? [])];
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.modern?.lane.close();
    await Promise.all([this.modern?.stop(), this.asking?.stop()]);
  }

  /** True if the end of a server shows nothing about its era. */
  get #isEnding(): boolean {
    return this.#isStopping || this.#context.kill.aborted;
  }

  #targetOf({ lane, params }: EraLane, handshake: UpstreamHandshake): Target {
    if (this.#target?.handshake !== handshake) this.#target = { lane, params, handshake };
    return this.#target;
  }

  #probe(): EraLane {
    const { config, log, nowMs } = this.#context;
    let isReady = false;
    const lane = this.#startModern({
      onStarted: () => undefined,
      onReady: () => {
        if (!isReady) log.info({ mode: "modern" }, "server era found");
        isReady = true;
        this.#verdict = "modern";
        this.#hasBeenModern = true;
      },
      onLost: ({ kind, reason }) => {
        if (this.#isEnding) return;
        const wasReady = isReady;
        isReady = false;
        if (wasReady) return;
        // A server that was of the modern era and is not ready after a restart may have changed. The next request finds out.
        const hasChanged = this.#verdict === "modern";
        this.#verdict = hasChanged ? undefined : "legacy";
        const mayComeBack = this.#hasBeenModern && kind !== "handshake-refused";
        this.#askAgainAtMs = mayComeBack ? nowMs() + config.restartMaxMs : Number.POSITIVE_INFINITY;
        if (hasChanged) log.info({ reason }, "server era may have changed");
        else log.info({ mode: "legacy", reason }, "server era found");
        // The lane gets this event first. It then rejects the requests that wait for it.
        queueMicrotask(() => this.#forget(lane));
      },
    });
    // RESTART_LIMIT is reached. The next request starts another process.
    void lane.ended.then(() => {
      if (this.modern === lane && !this.#isEnding) this.#forget(lane);
    });
    return lane;
  }

  #forget(lane: EraLane): void {
    if (this.modern === lane) this.modern = undefined;
    const { defects } = this.#context;
    defects.guard("lane end", () => lane.lane.routing.endSubscriptions());
    defects.guard("lane end", () => lane.lane.close("server lost"));
    void lane.stop();
  }
}
