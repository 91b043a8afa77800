import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { RequestMessage } from "../mcp/message.ts";
import type { Envelope } from "../mcp/translate.ts";
import type { MemoryAccount } from "../memory.ts";
import type { Reply } from "../session/reply.ts";
import type { Caller, Principal } from "../session/session.ts";

/** A client of the stateless revisions: a principal, or without tokens a peer address. Its requests share limits and rates. */
export class StatelessClient implements Caller {
  readonly id = randomUUID();
  readonly memory: MemoryAccount;
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
