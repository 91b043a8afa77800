/** The place of a value in an order. */
export class Place<Value> {
  /** Undefined only for the end of an order. */
  value: Value | undefined;
  /** Both are this place itself if it is in no order. */
  earlier: Place<Value> = this;
  later: Place<Value> = this;

  constructor(value?: Value) {
    this.value = value;
  }

  get isInOrder(): boolean {
    return this.later !== this;
  }

  leave(): void {
    this.earlier.later = this.later;
    this.later.earlier = this.earlier;
    this.earlier = this;
    this.later = this;
  }
}

/**
 * Values in an order, as a linked list: a value moves or leaves at the same cost, wherever it is. In a Set, each search for the first value
 * would pass all places of removed values, and a kept iterator would hold them in memory.
 */
export class LinkedOrder<Value> {
  readonly #end = new Place<Value>();

  /** The first place; undefined if the order is empty. */
  get first(): Place<Value> | undefined {
    const { later } = this.#end;
    return later === this.#end ? undefined : later;
  }

  /** Moves a place to the end, or adds it there. */
  moveToEnd(place: Place<Value>): void {
    const end = this.#end;
    if (end.earlier === place) return;
    place.leave();
    place.earlier = end.earlier;
    place.later = end;
    end.earlier.later = place;
    end.earlier = place;
  }
}
