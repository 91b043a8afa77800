import type { SidecarError } from "../mcp/errors.ts";
import type { Upstream } from "../process/port.ts";
import { type Call, type Effect, effectOf, isSent } from "./call.ts";
import type { RetryMode } from "../config/options.ts";
import { overloaded, toolsNotListed, upstreamFailed, upstreamNotReady } from "./failures.ts";
import { type QueueEntry, type ToolSemaphore, Turns } from "./slots.ts";

interface RequestQueueOptions {
  /** The maximum number of entries. */
  readonly maxHeld: number;
  /** The maximum number of client requests that the server has at a time. */
  readonly maxInFlight: number;
  /** Returns the number of client requests that were accepted and have not ended, queued ones included. */
  readonly countCalls: () => number;
  /** Returns true if the server has failed, so that entries are rejected at once. */
  readonly isFailed: () => boolean;
  /** Schedules a call of `expire`. */
  readonly watch: (deadlineMs: number) => void;
}

/** A reason why client requests wait although the server is ready: its tools are not listed, or it waits for a client's answer. */
type Block = "tools" | "question";

/** The parts of the queue for entries that take no slot: all of them, and those of one owner. They are never evicted. */
const SHARE_WITHOUT_SLOT = 1 / 2;
const OWNER_SHARE_WITHOUT_SLOT = 1 / 4;

/** The entries of one session by their semaphore, each in order of arrival. Entries without a semaphore have a queue of their own. */
type SessionQueues = Turns<ToolSemaphore | undefined, QueueEntry[]>;

/**
 * The queue of entries for the server. An entry is released when the server is ready and, for a client request, has a free slot.
 *
 * Sessions take turns. A session with a thousand entries delays another one by a single entry. Calls of a tool with limited slots have a
 * queue of their own in each session, and so do not block the rest of it. The queues of a session take turns as well. Those without a free
 * slot of their tool are skipped, and their session keeps its place.
 *
 * If the queue is full, the longest session queue loses an entry to a shorter one. Entries without a slot are not evicted, but have a limit.
 */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  readonly #entries = new Set<QueueEntry>();
  /** The queues that are not empty, by session. */
  readonly #sessions = new Turns<object, SessionQueues>();
  #slotCount = 0;
  /** The entries that are calls. A held request is not one yet. */
  #callCount = 0;
  #queuedBytes = 0;
  #isReady = false;
  readonly #blocks = new Set<Block>();
  #isReleasing = false;
  #isEnded = false;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
  }

  get isReady(): boolean {
    return this.#isReady;
  }

  isBlockedBy(block: Block): boolean {
    return this.#blocks.has(block);
  }

  /** True if the server may get another client request. */
  get hasSlot(): boolean {
    return this.#blocks.size === 0 && this.#options.countCalls() - this.#callCount < this.#options.maxInFlight;
  }

  get size(): number {
    return this.#entries.size;
  }

  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  get entries(): ReadonlySet<QueueEntry> {
    return this.#entries;
  }

  hasEntriesOf(owner: object): boolean {
    return this.#sessions.get(owner)?.has(undefined) === true;
  }

  /** @returns false if the queue is full and no session queue is longer than that of the entry, or if the server has failed or has ended. */
  add(entry: QueueEntry): boolean {
    const { isFailed, maxHeld, watch } = this.#options;
    if (!entry.takesSlot && !this.#hasRoomWithoutSlot(entry.owner)) return false;
    if (this.#isEnded || isFailed() || (this.size >= maxHeld && !this.#makeRoom(entry.owner))) return false;
    this.#insert(entry, "last");
    watch(entry.expiresAtMs);
    return true;
  }

  remove(entry: QueueEntry): void {
    if (!this.#entries.delete(entry)) return;
    this.#count(entry, -1);
    const { owner, semaphore } = entry;
    const queues = this.#sessions.get(owner);
    const queue = queues?.get(semaphore);
    queue?.splice(queue.indexOf(entry), 1);
    if (queue === undefined || queue.length > 0) return;
    semaphore?.waiting.delete(owner);
    queues?.delete(semaphore);
    if (queues?.size === 0) this.#sessions.delete(owner);
  }

  /** Opens the queue for a ready server. @param restore restores the server's state, before any entry is released. */
  open(restore: () => void): void {
    this.#isReady = true;
    restore();
    this.release();
  }

  /**
   * Closes the queue, because the server is lost.
   *
   * @param returned released entries for the next server. They lose their slots and go to the front, even above the limit.
   */
  close(returned: readonly QueueEntry[]): void {
    this.#isReady = false;
    for (const entry of returned.toReversed()) {
      entry.semaphore?.release(entry);
      this.#insert(entry, "first");
      this.#options.watch(entry.expiresAtMs);
    }
    this.#sessions.advance(returned.map(({ owner }) => owner));
    for (const [semaphore, entries] of Map.groupBy(returned, (entry) => entry.semaphore)) {
      semaphore?.waiting.advance(entries.map(({ owner }) => owner));
    }
    if (this.#isEnded) this.refuseAll();
  }

  /** Makes client requests wait until `unblock`, even if the server is ready. */
  block(block: Block): void {
    this.#blocks.add(block);
  }

  unblock(block: Block): void {
    if (this.#blocks.delete(block)) this.release();
  }

  /** Releases all entries that can be sent now. */
  release(): void {
    // An entry may end while it is released, which calls this again. The outer loop then uses the freed slot.
    if (this.size === 0 || !this.#isReady || this.#isReleasing) return;
    this.#isReleasing = true;
    try {
      for (let next = this.#next(); next !== undefined; next = this.#next()) {
        this.#take(next);
        next.release();
      }
    } finally {
      this.#isReleasing = false;
    }
  }

  /** Rejects expired entries. @returns the time at which the next entry expires, or Infinity. */
  expire(nowMs: number): number {
    let nextMs = Number.POSITIVE_INFINITY;
    for (const entry of this.#entries) {
      if (entry.expiresAtMs > nowMs) nextMs = Math.min(nextMs, entry.expiresAtMs);
      else {
        this.remove(entry);
        entry.refuse();
      }
    }
    return nextMs;
  }

  /** Rejects all entries, and those that come later: there will be no other server. */
  end(): void {
    this.#isEnded = true;
    this.refuseAll();
  }

  refuseAll(): void {
    this.expire(Number.POSITIVE_INFINITY);
  }

  /** Returns the next entry that can be sent. Skips sessions whose calls all wait for a slot of their tool. */
  #next(): QueueEntry | undefined {
    if (this.#slotCount < this.size) {
      for (const queues of this.#sessions.values()) {
        const first = queues.get(undefined)?.[0];
        if (first?.takesSlot === false) return first;
      }
    }
    if (!this.hasSlot) return undefined;
    for (const [owner, queues] of this.#sessions) {
      for (const [semaphore, [first]] of queues) if (semaphore === undefined || semaphore.isFreeFor(owner)) return first;
    }
    return undefined;
  }

  /** Removes an entry that is sent now. One that takes a slot is its session's turn, and its queue's turn in the session. */
  #take(entry: QueueEntry): void {
    const { owner, semaphore, takesSlot } = entry;
    this.remove(entry);
    semaphore?.acquire(entry);
    if (!takesSlot) return;
    this.#sessions.get(owner)?.rotate(semaphore);
    this.#sessions.rotate(owner);
    semaphore?.waiting.rotate(owner);
  }

  #insert(entry: QueueEntry, end: "first" | "last"): void {
    const { owner, semaphore } = entry;
    const queue = this.#sessions.join(owner, () => new Turns()).join(semaphore, () => []);
    semaphore?.waiting.join(owner, () => queue);
    if (end === "first") queue.unshift(entry);
    else queue.push(entry);
    this.#entries.add(entry);
    this.#count(entry, 1);
  }

  #count({ byteLength, takesSlot, held }: QueueEntry, change: 1 | -1): void {
    this.#queuedBytes += change * byteLength;
    if (takesSlot) this.#slotCount += change;
    if (takesSlot && held === undefined) this.#callCount += change;
  }

  #hasRoomWithoutSlot(owner: object): boolean {
    const { maxHeld } = this.#options;
    if (this.size - this.#slotCount >= Math.ceil(maxHeld * SHARE_WITHOUT_SLOT)) return false;
    const entries = this.#sessions.get(owner)?.get(undefined) ?? [];
    return entries.filter(({ takesSlot }) => !takesSlot).length < Math.ceil(maxHeld * OWNER_SHARE_WITHOUT_SLOT);
  }

  /** Evicts an entry of the longest session queue, if that is longer than the owner's. Entries without a slot are never evicted. */
  #makeRoom(owner: object): boolean {
    let longest: QueueEntry[][] = [];
    let length = 1 + countEntries(this.#sessions.get(owner)?.values() ?? []);
    for (const queues of this.#sessions.values()) {
      const removable = [...queues.values()].map((queue) => queue.filter(({ takesSlot }) => takesSlot));
      const count = countEntries(removable);
      if (count > length) [longest, length] = [removable, count];
    }
    const newest = longest.toSorted((a, b) => b.length - a.length)[0]?.at(-1);
    if (newest === undefined) return false;
    this.remove(newest);
    newest.refuse();
    return true;
  }
}

function countEntries(queues: Iterable<readonly QueueEntry[]>): number {
  let count = 0;
  for (const { length } of queues) count += length;
  return count;
}

/** Decides which calls the sidecar sends again after the server was lost, and which calls a client may retry safely. */
export class Retries {
  readonly #mode: RetryMode;
  readonly #isReadOnly: (toolName: string | undefined) => boolean;

  /** @param isReadOnly returns true if a tool is known to be read-only. */
  constructor(mode: RetryMode, isReadOnly: (toolName: string | undefined) => boolean) {
    this.#mode = mode;
    this.#isReadOnly = isReadOnly;
  }

  effectOf({ method, toolName, retry }: Call): Effect {
    // The call was read-only when it was queued again. The next generation may not have listed its tools yet.
    if (retry !== "none") return "safe";
    if (method === "tools/call") return this.#mode === "read-only" && this.#isReadOnly(toolName) ? "safe" : "unknown";
    return effectOf(method);
  }

  /** Returns the arguments for the error of a call that is given up. */
  outcomeOf(call: Call): [method: string, sent: boolean, effect: Effect] {
    return [call.method, isSent(call), this.effectOf(call)];
  }

  /** True if a call of this method may be sent again automatically. */
  mayRetry(method: string): boolean {
    if (this.#mode === "off") return false;
    return method === "tools/call" ? this.#mode === "read-only" : effectOf(method) === "safe";
  }

  /**
   * Returns true if a call is sent again automatically. A call whose client has seen progress or a question is not: it would see them again. An
   * internal request is not either: each generation gets new ones.
   */
  shouldRetry(call: Call, nowMs: number): boolean {
    if (this.#mode === "off" || call.state !== "written" || call.origin === "sidecar" || !call.isKept) return false;
    if (call.retry !== "none" || call.mustNotRestart || call.deadlineMs <= nowMs) return false;
    return this.effectOf(call) === "safe";
  }

  /** Returns the calls of a lost generation that are sent again, and marks them as queued. */
  takeFrom(calls: Iterable<Call>, nowMs: number): Call[] {
    const retried: Call[] = [];
    for (const call of calls) {
      // The lost generation may have left it unwritten.
      call.sentAtMs = undefined;
      if (!this.shouldRetry(call, nowMs)) continue;
      call.state = "queued";
      call.retry = "due";
      retried.push(call);
    }
    return retried;
  }
}

interface QueueTimeoutErrorsOptions {
  readonly upstream: Upstream;
  readonly queue: RequestQueue;
  readonly retries: Retries;
  readonly maxInFlight: number;
}

/** The errors of requests that could not be sent in time. `call` is undefined for a request that was never queued. */
export class QueueTimeoutErrors {
  readonly #options: QueueTimeoutErrorsOptions;

  constructor(options: QueueTimeoutErrorsOptions) {
    this.#options = options;
  }

  /** Returns the error for a server that is not ready. */
  notReady(call?: Call): SidecarError {
    const status = this.#options.upstream.status();
    const describe = status.state === "failed" ? upstreamFailed : upstreamNotReady;
    return describe(status, Date.now(), ...this.#outcomeOf(call));
  }

  /** Returns the error for the current obstacle. @param semaphore that of the tool, if the request needed one. */
  notSent(semaphore?: ToolSemaphore, call?: Call): SidecarError {
    const { queue, maxInFlight } = this.#options;
    if (!queue.isReady) return this.notReady(call);
    const outcome = this.#outcomeOf(call);
    if (queue.isBlockedBy("tools")) return toolsNotListed(...outcome);
    if (queue.isBlockedBy("question"))
      return overloaded("its processes wait for answers of clients (CLAW_MCP_STDIO_MAX_PRIVATE_SERVERS)", ...outcome);
    if (semaphore !== undefined && semaphore.freeCount <= 0) return overloaded(semaphore.describe(), ...outcome);
    return overloaded(`${maxInFlight} in flight, ${queue.size} queued`, ...outcome);
  }

  #outcomeOf(call: Call | undefined): [sent?: boolean, effect?: Effect] {
    return call === undefined ? [] : [isSent(call), this.#options.retries.effectOf(call)];
  }
}

/** Returns the error if a line may not join this many queued bytes. A single queued line may exceed the limit by itself. */
export function roomError(text: string, queuedBytes: number, maxQueuedBytes: number): SidecarError | undefined {
  const roomBytes = maxQueuedBytes - queuedBytes;
  // A UTF-16 unit has at most three bytes. The exact size is computed only if this estimate is too large.
  const hasRoom = queuedBytes === 0 || text.length * 3 <= roomBytes || Buffer.byteLength(text) <= roomBytes;
  return hasRoom ? undefined : overloaded("its input queue is full");
}
