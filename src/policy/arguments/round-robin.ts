/** A queue in which callers take turns. Many entries of one caller delay another caller by only one entry. */
export class RoundRobin<Entry> {
  /** The next caller comes first. */
  readonly #byCaller = new Map<object, Set<Entry>>();

  #last: object | undefined;

  add(caller: object, entry: Entry): void {
    const entries = this.#byCaller.get(caller);
    if (entries === undefined) this.#byCaller.set(caller, new Set([entry]));
    else entries.add(entry);
  }

  /** Removes and returns the next entry. */
  next(): Entry | undefined {
    // The caller of the previous entry comes after all others, even if it was the only one then.
    const caller = this.#byCaller.keys().find((each) => each !== this.#last) ?? this.#last;
    const entries = caller === undefined ? undefined : this.#byCaller.get(caller);
    if (caller === undefined || entries === undefined) return undefined;
    this.#last = caller;
    const [entry] = entries;
    this.#byCaller.delete(caller);
    if (entry !== undefined) entries.delete(entry);
    if (entries.size > 0) this.#byCaller.set(caller, entries);
    return entry;
  }

  remove(caller: object, entry: Entry): void {
    const entries = this.#byCaller.get(caller);
    if (entries?.delete(entry) === true && entries.size === 0) this.#byCaller.delete(caller);
  }
}
