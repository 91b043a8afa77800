import type { Exchange } from "../../sessions/exchange.ts";
import type { StatelessExchange } from "../stateless-exchange.ts";
import type { AskKinds } from "./ask-kinds.ts";

/** One request of the client for a call. A call has another one after each `input_required` result. */
export interface Round {
  /** The exchange of the HTTP request. */
  readonly raw: Exchange;
  /** The same, for responses of the server. */
  readonly exchange: StatelessExchange;
  /** The questions that the client has declared. */
  readonly declared: AskKinds;
  readonly progressTokenText: string | undefined;
}
