import type { IncomingHttpHeaders } from "node:http";
import type { MemoryAccount } from "../memory/memory-budget.ts";
import type { RequestMessage } from "../protocol/message.ts";
import type { Exchange } from "../sessions/exchange.ts";
import type { Principal } from "../sessions/principal.ts";
import type { Envelope } from "./checks/request-check.ts";
import type { Target } from "./server-eras.ts";
import type { StatelessClient } from "./stateless-client.ts";

/** A request that has passed all checks of its text. */
export interface StatelessRequest {
  readonly request: RequestMessage;
  readonly envelope: Envelope;
  readonly headers: IncomingHttpHeaders;
  readonly exchange: Exchange;
  readonly memory: MemoryAccount;
  /** The token of the request; undefined if tokens are off. It may be removed while the request waits. */
  readonly owner: Principal | undefined;
}

/** A request, its client, and the lane for it. */
export interface StatelessCall {
  readonly stateless: StatelessRequest;
  readonly target: Target;
  readonly client: StatelessClient;
}
