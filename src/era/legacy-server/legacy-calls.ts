import { SidecarError } from "../../errors.ts";
import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import { InternalExchange, internalRequest } from "../../lane/internal/internal-exchange.ts";
import { sessionOverloaded } from "../../lane/failures.ts";
import type { Lane } from "../../lane/lane.ts";
import type { Defects } from "../../observability/defects.ts";
import { Slot } from "../../protocol/message.ts";
import { progressTokenText } from "../../protocol/rewrite.ts";
import type { Rewrite } from "../../sessions/rewritten-exchange.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import { AskKind, isSubset } from "../asks/ask-kinds.ts";
import { AskingExchange } from "../asks/asking-exchange.ts";
import { answersOf } from "../asks/answers.ts";
import type { ParkedCalls } from "../asks/parked-calls.ts";
import type { Round } from "../asks/round.ts";
import { findResult } from "../results/found-result.ts";
import { LOG_LEVELS } from "../../protocol/log-level.ts";
import type { Target } from "../server-eras.ts";
import type { StatelessClient } from "../stateless-client.ts";
import { StatelessExchange } from "../stateless-exchange.ts";
import type { StatelessCall, StatelessRequest } from "../stateless-request.ts";
import { requestToLegacyServer } from "./legacy-request.ts";
import { mayAsk, responseToModernClient, serverInfoOf } from "./legacy-result.ts";
import type { ServerInfo } from "../results/server-info.ts";

export interface LegacyCallsOptions {
  /** The calls whose clients were asked. Undefined if clients cannot be asked. */
  readonly parked: ParkedCalls | undefined;
  readonly defects: Pick<Defects, "guard">;
  readonly nowMs: () => number;
}

/** Forwards requests of clients without sessions to a server with sessions. */
export class LegacyCalls {
  readonly #options: LegacyCallsOptions;
  /** The most verbose level that each client has asked for, by lane. */
  readonly #levels = new WeakMap<Lane, WeakMap<StatelessClient, string>>();
  /** Each result has this text, so it is found once for each handshake. */
  readonly #serverInfos = new WeakMap<UpstreamHandshake, ServerInfo>();

  constructor(options: LegacyCallsOptions) {
    this.#options = options;
  }

  forward({ stateless, target, client }: StatelessCall): void {
    const { request, envelope } = stateless;
    const { parked, defects } = this.#options;
    // A call that waits for this request does not come here.
    const unknown = parked?.find(request, client.memory.holder);
    if (unknown instanceof SidecarError) return stateless.exchange.fail(unknown);
    const serverInfo = this.#serverInfo(target.handshake);
    const raiseLevel = (level: string): void => this.#raiseLevel(client, level, target);
    if (envelope.logLevel !== undefined) raiseLevel(envelope.logLevel);
    const round = roundOf(stateless, serverInfo);
    const { memory } = client;
    const exchange =
      parked === undefined || !mayAsk(request.method)
        ? round.exchange
        : new AskingExchange({ parking: parked, memory, serverInfo, raiseLevel, defects }, round, request);
    target.lane.request(client, exchange, requestToLegacyServer(request));
  }

  /** Continues a parked call with the request that answers its questions. @param maxRequests the limit for the client's requests. */
  continue(exchange: AskingExchange, stateless: StatelessRequest, client: StatelessClient, maxRequests: number): void {
    const answers = answersOf(stateless.request);
    const refusal = client.callsInFlight >= maxRequests ? sessionOverloaded(maxRequests) : exchange.roomError(answers);
    if (refusal !== undefined) return stateless.exchange.fail(refusal);
    this.#options.parked?.remove(exchange);
    exchange.resume(roundOf(stateless, exchange.serverInfo), answers);
  }

  #serverInfo(handshake: UpstreamHandshake): ServerInfo {
    const known = this.#serverInfos.get(handshake);
    if (known !== undefined) return known;
    const info = serverInfoOf(handshake.resultText);
    this.#serverInfos.set(handshake, info);
    return info;
  }

  /** A server with sessions has one level for all: the most verbose that was ever wanted. Each request gets its own part of it. */
  #raiseLevel(client: StatelessClient, level: string, { lane, handshake }: Target): void {
    const levels = this.#levels.get(lane) ?? new WeakMap<StatelessClient, string>();
    this.#levels.set(lane, levels);
    const former = levels.get(client);
    if (former !== undefined && LOG_LEVELS.indexOf(former) <= LOG_LEVELS.indexOf(level)) return;
    if (readCapabilities(handshake.resultText)["logging"] === undefined) return;
    levels.set(client, level);
    // Without a result, the next request asks again.
    const onResult = (resultText: string | undefined): void => {
      if (resultText === undefined) levels.delete(client);
    };
    const exchange = new InternalExchange(this.#options.nowMs(), () => undefined, onResult);
    lane.request(client, exchange, internalRequest("logging/setLevel", { level }));
  }
}

function roundOf({ request, envelope, exchange: raw }: StatelessRequest, serverInfo: ServerInfo): Round {
  const { declared, logLevel } = envelope;
  const shape = {
    method: request.method,
    serverInfo,
    uriText: request.outline.copyAt(Slot.uri),
    declaresUrl: isSubset(AskKind.url, declared),
  };
  const rewrite: Rewrite = (body, response) => responseToModernClient(body, findResult(body, raw.idText, response), shape);
  const exchange = new StatelessExchange(raw, { rewrite, addedBytes: serverInfo.addedBytes, logLevel });
  return { raw, exchange, declared, progressTokenText: progressTokenText(request) };
}
