import { type AskKinds, offeredKinds } from "../mcp/capabilities.ts";
import type { SidecarError } from "../mcp/errors.ts";
import type { JsonObject } from "../mcp/message.ts";
import type { MemoryHolder } from "../memory.ts";
import type { Defects, Log } from "../observe/log.ts";
import type { ServerEra, UpstreamHandshake, UpstreamObserver } from "../process/port.ts";
import type { Caller, Exchange } from "../session/session.ts";
import type { AskingLane, AskingLanes } from "./asking-lanes.ts";
import type { HeldRequest } from "./dispatch.ts";
import { shuttingDown } from "./failures.ts";
import { KnownParams } from "./known-params.ts";
import type { Lane } from "./lane.ts";
import type { SupervisedLane } from "./lanes.ts";
import type { ModernRouting } from "./modern-routing.ts";

/** The time in which a server lists its tools for the check of headers. */
const LIST_TIMEOUT_MS = 10_000;
/** The part of REQUEST_TIMEOUT_MS that a listing may take. A call may wait for two, and still needs time for the server. */
const LIST_SHARE = 1 / 4;

/** A lane whose server may be of the modern era. */
export interface EraLane extends SupervisedLane {
  readonly routing: ModernRouting;
  readonly params: KnownParams;
}

/** A lane for a request, and the last handshake of its server. */
export interface Target {
  readonly lane: Lane;
  readonly handshake: UpstreamHandshake;
  /** Undefined for a server with sessions that may ask its clients. */
  readonly routing: ModernRouting | undefined;
  readonly params: KnownParams;
}

interface ServerErasOptions {
  readonly shared: EraLane;
  /** The servers that may ask their clients. Undefined if none may. */
  readonly asking: AskingLanes | undefined;
  /** Starts a second process, which gets a discovery first. */
  readonly startModern: (observer: UpstreamObserver) => EraLane;
  /** False if the shared process must be the only one. */
  readonly mayProbe: boolean;
  /** The pause before another discovery, for a server that has answered one before and cannot start now. */
  readonly askAgainAfterMs: number;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  readonly nowMs: () => number;
}

/** @param visibleNames returns the names of the tools that clients can see; undefined for all. A hidden tool is like an unknown one. */
export function knownParams(
  lane: () => Lane,
  nowMs: () => number,
  visibleNames: ((tools: readonly JsonObject[]) => ReadonlySet<unknown>) | undefined,
): KnownParams {
  return new KnownParams(async () => {
    const { tools: serverTools, limits } = lane();
    const tools = await serverTools.list(Math.min(LIST_TIMEOUT_MS, limits.requestTimeoutMs * LIST_SHARE));
    if (tools === undefined || visibleNames === undefined) return tools;
    const visible = visibleNames(tools);
    return tools.filter(({ name }) => visible.has(name));
  }, nowMs);
}

/**
 * The lanes for requests without a session, by the era of the server. The shared process gets `initialize` first. If it is of the legacy
 * era, a second process gets `server/discover` at the first request that needs it: some servers exit, are silent, or can never have a
 * session after that. The verdict is kept (MCP 2026-07-28, basic/transports/stdio).
 */
export class ServerEras {
  readonly #options: ServerErasOptions;
  /** The lane of the second process, while it is probed or if it is of the modern era. */
  #modern: EraLane | undefined;
  /** The verdict on the second process; undefined until it is known. */
  #verdict: ServerEra | undefined;
  #hasBeenModern = false;
  /** The time after which the verdict `legacy` ends, and the server is asked again. */
  #askAgainAtMs = Number.POSITIVE_INFINITY;
  /** The target of the last request, reused while the handshake is the same. */
  #target: Target | undefined;
  #isDraining = false;
  #isStopping = false;

  constructor(options: ServerErasOptions) {
    this.#options = options;
    if (!options.mayProbe) this.#verdict = "legacy";
  }

  /** The era of the server for requests without a session; undefined until it is known. */
  get era(): ServerEra | undefined {
    const shared = this.#options.shared.lane.lastHandshake?.era;
    return shared === "modern" ? shared : shared === undefined ? undefined : this.#verdict;
  }

  /** The lane of the second process; undefined if there is none. */
  get modern(): SupervisedLane | undefined {
    return this.#modern;
  }

  /** The servers that may ask their clients. */
  get asking(): AskingLanes | undefined {
    return this.#options.asking;
  }

  /**
   * Finds the lane for a request. It waits until the server is ready for the first time, and until its era is known.
   *
   * @param declared the questions that the client can answer.
   */
  find(
    client: Pick<HeldRequest, "owner" | "exchange" | "request">,
    declared: AskKinds,
    onFound: (target: Target) => void,
    onFailed: (error: SidecarError) => void,
  ): void {
    const { shared } = this.#options;
    const handshake = shared.lane.lastHandshake;
    if (handshake === undefined) {
      const onReady = (): void => this.find(client, declared, onFound, onFailed);
      return shared.lane.whenReady({ ...client, onReady, onFailed });
    }
    if (this.#verdict === "legacy" && this.#options.nowMs() >= this.#askAgainAtMs) this.#verdict = undefined;
    if (handshake.era === "modern") return onFound(this.#targetOf(shared, handshake));
    const findLegacy = (): void => this.#findLegacy(client, declared, handshake, onFound, onFailed);
    if (this.#verdict === "legacy") return findLegacy();
    if (this.#modern === undefined && this.#isDraining) return onFailed(shuttingDown(client.request.method, false));
    const modern = (this.#modern ??= this.#probe());
    const known = modern.lane.lastHandshake;
    if (known !== undefined) return onFound(this.#targetOf(modern, known));
    modern.lane.whenReady({
      ...client,
      onReady: () => this.find(client, declared, onFound, onFailed),
      onFailed: (error) => {
        if (this.#verdict === "legacy" && !this.#isStopping) findLegacy();
        else onFailed(error);
      },
    });
  }

  /** Rejects a request that has found no lane. */
  refuse(exchange: Exchange, error: SidecarError): void {
    this.#options.shared.lane.refuse(exchange, error);
  }

  /** Removes the state of a client. */
  endCaller(caller: Caller): void {
    this.#options.shared.lane.endCaller(caller);
    this.#modern?.lane.endCaller(caller);
    this.#options.asking?.endCaller(caller);
  }

  /** Rejects unsent requests of a client at the other processes than the shared one, until this much memory is free. */
  freeUnsent(bytes: number, holder: MemoryHolder): void {
    const freeBytes = this.#modern?.lane.freeUnsent(bytes, holder) ?? 0;
    if (freeBytes < bytes) this.#options.asking?.freeUnsent(bytes - freeBytes, holder);
  }

  async drain(): Promise<void> {
    this.#isDraining = true;
    await Promise.all([this.#modern?.lane.drain(), this.#options.asking?.drain()]);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#modern?.lane.close();
    await Promise.all([this.#modern?.stop(), this.#options.asking?.stop()]);
  }

  /** Finds the lane at a server with sessions. One for the questions of the client may not be ready yet. */
  #findLegacy(
    client: Pick<HeldRequest, "owner" | "exchange" | "request">,
    declared: AskKinds,
    handshake: UpstreamHandshake,
    onFound: (target: Target) => void,
    onFailed: (error: SidecarError) => void,
  ): void {
    const { shared, asking } = this.#options;
    const kinds = offeredKinds(declared);
    if (kinds === 0 || asking === undefined) return onFound(this.#targetOf(shared, handshake));
    const found = ({ lane, params }: AskingLane, own: UpstreamHandshake): void =>
      onFound({ lane, routing: undefined, params, handshake: own });
    asking.find(kinds, client, found, onFailed);
  }

  #targetOf({ lane, routing, params }: EraLane, handshake: UpstreamHandshake): Target {
    if (this.#target?.handshake !== handshake) this.#target = { lane, routing, params, handshake };
    return this.#target;
  }

  #probe(): EraLane {
    const { log, startModern, askAgainAfterMs, nowMs } = this.#options;
    let isReady = false;
    const lane = startModern({
      onStarted: () => undefined,
      onReady: () => {
        if (!isReady) log.info({ mode: "modern" }, "server era found");
        isReady = true;
        this.#verdict = "modern";
        this.#hasBeenModern = true;
      },
      onLost: ({ kind, reason }) => {
        if (this.#isStopping) return;
        const wasReady = isReady;
        isReady = false;
        if (wasReady) return;
        // A server that was of the modern era and is not ready after a restart may have changed. The next request finds out.
        const hasChanged = this.#verdict === "modern";
        this.#verdict = hasChanged ? undefined : "legacy";
        const mayComeBack = this.#hasBeenModern && kind !== "handshake-refused";
        this.#askAgainAtMs = mayComeBack ? nowMs() + askAgainAfterMs : Number.POSITIVE_INFINITY;
        if (hasChanged) log.info({ reason }, "server era may have changed");
        else log.info({ mode: "legacy", reason }, "server era found");
        // The lane gets this event first. It then rejects the requests that wait for it.
        queueMicrotask(() => this.#forget(lane));
      },
    });
    // RESTART_LIMIT is reached. The next request starts another process.
    void lane.ended.then(() => {
      if (this.#modern === lane && !this.#isStopping) this.#forget(lane);
    });
    return lane;
  }

  #forget(lane: EraLane): void {
    if (this.#modern === lane) this.#modern = undefined;
    const { defects } = this.#options;
    defects.guard("lane end", () => lane.routing.endSubscriptions());
    defects.guard("lane end", () => lane.lane.close("server lost"));
    void lane.stop();
  }
}
