/** The place of a value in a list. Its holder can remove the value. */
export interface Link<Value> {
  readonly value: Value;
  previous: Link<Value> | undefined;
  next: Link<Value> | undefined;
}

/** A doubly linked list. It adds at both ends and removes anywhere in constant time. */
export class LinkedList<Value> {
  #first: Link<Value> | undefined;
  #last: Link<Value> | undefined;
  #length = 0;

  get first(): Value | undefined {
    return this.#first?.value;
  }

  get length(): number {
    return this.#length;
  }

  push(value: Value): Link<Value> {
    const link: Link<Value> = { value, previous: this.#last, next: undefined };
    if (this.#last === undefined) this.#first = link;
    else this.#last.next = link;
    this.#last = link;
    this.#length++;
    return link;
  }

  unshift(value: Value): Link<Value> {
    const link: Link<Value> = { value, previous: undefined, next: this.#first };
    if (this.#first === undefined) this.#last = link;
    else this.#first.previous = link;
    this.#first = link;
    this.#length++;
    return link;
  }

  /** @param link a link of this list, which must not be used again. */
  remove({ previous, next }: Link<Value>): void {
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    this.#length--;
  }

  findLast(accepts: (value: Value) => boolean): Value | undefined {
    let link = this.#last;
    while (link !== undefined && !accepts(link.value)) link = link.previous;
    return link?.value;
  }
}
