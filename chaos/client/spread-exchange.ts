// One HTTP request to the wrapper, or to the next of its replicas.

import type { HttpCall } from "../../test/support/http-client.ts";
import type { Tally } from "../tally.ts";
import { type Exchange, exchange, type ExchangeEnd, type ExchangeListener } from "./http-exchange.ts";

/** One process of the wrapper. */
export interface Target {
  readonly url: string;
  readonly tally: Tally;
  /** True once the driver has sent SIGKILL to it. */
  readonly wasKilled: boolean;
}

/** The replicas as a load balancer knows them. It has no affinity. */
export interface Replicas {
  /** Returns the next one in turn that is not one of the tried ones; undefined if there is none. It may have ended. */
  next(tried: ReadonlySet<Target>): Target | undefined;
  all(): readonly Target[];
}

export interface Endpoint {
  readonly url: URL;
  readonly token: string | undefined;
  /** If set, each request goes to the next of these instead of to the URL. */
  readonly replicas?: Replicas;
}

interface Choice {
  /** The only replica that may get the request. */
  readonly target?: Target | undefined;
  /** Called before each attempt. */
  readonly onTarget: (target: Target) => void;
}

/** Sends one request. A replica that refuses the connection has got nothing, so the request goes to the one after it. */
export function spreadExchange({ url, replicas }: Endpoint, call: HttpCall, listener: ExchangeListener, choice: Choice): Exchange {
  if (replicas === undefined) return exchange(url.href, call, listener);
  let current: Exchange | undefined;
  let isAbandoned = false;
  const run = async (): Promise<ExchangeEnd> => {
    const tried = new Set<Target>();
    let end: ExchangeEnd = { failure: "no replica" };
    for (;;) {
      const target = tried.size === 0 ? (choice.target ?? replicas.next(tried)) : replicas.next(tried);
      if (target === undefined) return end;
      tried.add(target);
      choice.onTarget(target);
      current = exchange(target.url, call, listener);
      end = await current.ended;
      if (wasRefused(end) && choice.target === undefined && !isAbandoned) continue;
      return end.failure !== undefined && !wasRefused(end) && target.wasKilled ? { ...end, isKilled: true } : end;
    }
  };
  return {
    ended: run(),
    abandon: () => {
      isAbandoned = true;
      current?.abandon();
    },
  };
}

function wasRefused({ failure }: ExchangeEnd): boolean {
  return failure?.startsWith("ECONNREFUSED") === true;
}
