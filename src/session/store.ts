import type { Context } from "../context.ts";
import { ANY_HOLDER, HOLDER_SHARE, LinkedOrder, type MemoryHolder, Place } from "../memory.ts";
import type { Principal, Session } from "./session.ts";

interface Holding {
  count: number;
  /** The longest unused first. */
  readonly order: LinkedOrder<Session>;
}

/** A session without request and stream counts as abandoned only after this time: its user may be reading or typing. */
const ABANDONED_MS = 60_000;
const SEARCH_MS = 1000;

/**
 * When sessions are many, a new one takes the place of one that is not in use. No cost of a call or of a new session grows with a client's
 * number of sessions.
 */
export class SessionStore {
  readonly maxSessions: number;
  readonly #context: Context;
  readonly #entries = new Map<
    string,
    { readonly session: Session; readonly holding: Holding; readonly place: Place<Session>; readonly placeInHolding: Place<Session> }
  >();
  /** The longest unused first. */
  readonly #order = new LinkedOrder<Session>();
  readonly #holdings = new Map<MemoryHolder, Holding>();
  readonly #share: number;
  /** From this number on, no holder may exceed the share. */
  readonly #manySessions: number;
  #searchedAtMs = -Infinity;

  constructor(context: Context) {
    const { config, memory } = context;
    const { maxSessions } = config;
    const share = Math.floor(maxSessions * HOLDER_SHARE);
    [this.#context, this.maxSessions] = [context, maxSessions];
    this.#manySessions = maxSessions - share;
    this.#share = Math.max(1, share);
    memory.onShortage("abandoned", (holder) => this.#endAbandoned(holder));
  }

  get size(): number {
    return this.#entries.size;
  }

  /** True also if one would be evicted. */
  hasRoomFor(holder: MemoryHolder): boolean {
    return this.#roomFor(holder) !== "none";
  }

  /** Evicts one if there are too many. @returns false if there is no place. */
  add(session: Session): boolean {
    const { holder } = session.memory;
    const room = this.#roomFor(holder);
    if (room === "none") return false;
    if (room !== "free") {
      this.#logEnd("room for a new session");
      this.evict(room);
    }
    const holding = this.#holdings.get(holder) ?? { count: 0, order: new LinkedOrder<Session>() };
    this.#holdings.set(holder, holding);
    holding.count++;
    const [place, placeInHolding] = [new Place(session), new Place(session)];
    this.#entries.set(session.id, { session, holding, place, placeInHolding });
    session.onUsed = () => {
      this.#order.moveToEnd(place);
      holding.order.moveToEnd(placeInHolding);
    };
    session.onUsed();
    return true;
  }

  get(id: string | undefined, owner: Principal | undefined): Session | undefined {
    const session = this.#entries.get(id ?? "")?.session;
    return session?.owner === owner ? session : undefined;
  }

  /** Sessions may end while they are iterated. */
  *values(): Generator<Session> {
    for (const { session } of this.#entries.values()) yield session;
  }

  ownedBy(owner: Principal): Session[] {
    return [...this.values()].filter((session) => session.owner === owner);
  }

  /** Its client may take it up again. One with subscriptions is over, so that its client subscribes again. */
  evict(session: Session): void {
    this.end(session, session.memory.lastingBytes > 0);
  }

  /** @param isOver false if it may be taken up again. */
  end(session: Session, isOver = true): void {
    const entry = this.#entries.get(session.id);
    if (entry === undefined) return;
    this.#entries.delete(session.id);
    const { holding, place, placeInHolding } = entry;
    // The end of its requests is a use.
    session.onUsed = undefined;
    place.leave();
    placeInHolding.leave();
    if (--holding.count === 0) this.#holdings.delete(session.memory.holder);
    session.end(isOver);
  }

  #roomFor(holder: MemoryHolder): Session | "free" | "none" {
    const own = this.#holdings.get(holder);
    if (own !== undefined && own.count >= this.#share && this.size >= this.#manySessions) return own.order.firstFree(isUnused) ?? "none";
    return this.size < this.maxSessions ? "free" : (this.#longestUnused() ?? "none");
  }

  /** Begins with the client that has most memory, and with its longest unused session. */
  *#endAbandoned(holder: MemoryHolder): Generator<void> {
    const nowMs = this.#context.nowMs();
    if (nowMs - this.#searchedAtMs < SEARCH_MS) return;
    this.#searchedAtMs = nowMs;
    // Sessions of shared servers never end by themselves.
    const abandoned = this.values()
      .filter((each) => (holder === ANY_HOLDER || each.memory.holder === holder) && each.memory.lastingBytes > 0)
      .filter(({ isInUse, lastUsedAtMs }) => !isInUse && nowMs - lastUsedAtMs >= ABANDONED_MS);
    const byHolder = [...Map.groupBy(abandoned, (each) => each.memory.holder).values()].sort((a, b) => lastingBytes(b) - lastingBytes(a));
    for (const session of byHolder.flatMap((each) => each.sort((a, b) => a.lastUsedAtMs - b.lastUsedAtMs))) {
      this.#logEnd("room in the memory budget");
      yield this.end(session);
    }
  }

  #logEnd(reason: string): void {
    this.#context.limitedLog.info({ reason }, "session ended");
  }

  /** Prefers the largest holding above the share. */
  #longestUnused(): Session | undefined {
    const large = [...this.#holdings.values()].filter(({ count }) => count > this.#share);
    for (const { order } of large.sort((a, b) => b.count - a.count)) {
      const session = order.firstFree(isUnused);
      if (session !== undefined) return session;
    }
    return this.#order.firstFree(isUnused);
  }
}

function isUnused({ isInUse }: Session): boolean {
  return !isInUse;
}

function lastingBytes(sessions: readonly Session[]): number {
  return sessions.reduce((sum, { memory }) => sum + memory.lastingBytes, 0);
}
