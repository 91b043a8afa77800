/** A map whose keys take turns. The next one comes first, and a new one last. */
export class Turns<Key, Value> extends Map<Key, Value> {
  /** Returns the value of a key, and creates it if there is none. */
  join(key: Key, create: () => Value): Value {
    const value = this.get(key) ?? create();
    if (!this.has(key)) this.set(key, value);
    return value;
  }

  /** Ends the turn of a key. Its next one comes after all others. */
  rotate(key: Key): void {
    const value = this.get(key);
    if (value === undefined) return;
    this.delete(key);
    this.set(key, value);
  }

  /** Gives these keys the next turns, in this order. Takes linear time. */
  advance(keys: readonly Key[]): void {
    for (const key of new Set([...keys, ...this.keys()])) this.rotate(key);
  }
}
