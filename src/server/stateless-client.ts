import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RequestMessage } from "../mcp/message.ts";
import type { Envelope } from "../mcp/translate.ts";
import { LinkedOrder, type MemoryAccount, type MemoryHolder, Place } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Principal } from "../session/session.ts";

/** A client of the stateless revisions: a principal, or without tokens a peer address. Its requests share limits and rates. */
export class StatelessClient implements Caller {
  readonly id = randomUUID();
  readonly memory: MemoryAccount;
  /** Its place among all clients, in the order of their last use. */
  readonly place = new Place<StatelessClient>(this);
  callsInFlight = 0;

  constructor(memory: MemoryAccount) {
    this.memory = memory;
  }

  beginCall(): void {
    this.callsInFlight++;
  }

  endCall(): void {
    this.callsInFlight--;
  }

  deliver(_text: string): void {
    // A message that belongs to no request in flight has no stream.
  }

  deliverOnce(_text: string): void {
    // As above. Subscriptions have callers of their own.
  }
}

/** The stateless clients by holder. The longest unused ones are forgotten when there are too many. */
export class StatelessClients {
  readonly #maxClients: number;
  readonly #isInUse: (client: StatelessClient) => boolean;
  readonly #onForgotten: (client: StatelessClient) => void;
  readonly #byHolder = new Map<MemoryHolder, StatelessClient>();
  readonly #order = new LinkedOrder<StatelessClient>();

  /**
   * @param isInUse true for a client without a request in flight that must not be forgotten.
   * @param onForgotten called with each client that is forgotten: others need its place, or its token was removed.
   */
  constructor(maxClients: number, isInUse: (client: StatelessClient) => boolean, onForgotten: (client: StatelessClient) => void) {
    this.#maxClients = maxClients;
    this.#isInUse = isInUse;
    this.#onForgotten = onForgotten;
  }

  get size(): number {
    return this.#byHolder.size;
  }

  /** Returns the client with this account, and marks it as used. */
  use(account: MemoryAccount): StatelessClient {
    const client = this.#byHolder.get(account.holder) ?? this.#add(account);
    this.#order.moveToEnd(client.place);
    return client;
  }

  end(holder: MemoryHolder): void {
    const client = this.#byHolder.get(holder);
    if (client !== undefined) this.#forget(client);
  }

  #add(account: MemoryAccount): StatelessClient {
    const client = new StatelessClient(account);
    this.#byHolder.set(account.holder, client);
    this.#makeRoom();
    return client;
  }

  /** Forgets the longest unused client without a request in flight, if there are too many clients. */
  #makeRoom(): void {
    for (let tries = this.size; tries > 0 && this.size > this.#maxClients; tries--) {
      const client = this.#order.first?.value;
      if (client === undefined) return;
      // A request in flight is a use.
      if (client.callsInFlight > 0 || this.#isInUse(client)) this.#order.moveToEnd(client.place);
      else this.#forget(client);
    }
  }

  #forget(client: StatelessClient): void {
    client.place.leave();
    this.#byHolder.delete(client.memory.holder);
    this.#onForgotten(client);
  }
}

/** A request that has passed all checks of its text. */
export interface StatelessRequest {
  readonly request: RequestMessage;
  readonly envelope: Envelope;
  readonly headers: IncomingHttpHeaders;
  readonly reply: Reply;
  readonly memory: MemoryAccount;
  /** The token of the request; undefined if tokens are off. It may be removed while the request waits. */
  readonly owner: Principal | undefined;
}
