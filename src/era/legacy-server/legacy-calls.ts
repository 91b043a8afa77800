import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import { InternalExchange, internalRequest } from "../../lane/internal/internal-exchange.ts";
import { Slot } from "../../protocol/message.ts";
import type { Rewrite } from "../../sessions/rewritten-exchange.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";
import { findResult } from "../found-result.ts";
import { LOG_LEVELS } from "../../protocol/log-level.ts";
import type { Target } from "../server-eras.ts";
import type { StatelessClient } from "../stateless-client.ts";
import { StatelessExchange } from "../stateless-exchange.ts";
import type { StatelessCall } from "../stateless-request.ts";
import { requestToLegacyServer } from "./legacy-request.ts";
import { responseToModernClient, type ServerInfo, serverInfoOf } from "./legacy-result.ts";

/** Forwards requests of clients without sessions to a server with sessions. */
export class LegacyCalls {
  readonly #nowMs: () => number;
  /** The most verbose level that each client has asked for. */
  readonly #levels = new WeakMap<StatelessClient, string>();
  /** Each result has this text, so it is found once for each handshake. */
  readonly #serverInfos = new WeakMap<UpstreamHandshake, ServerInfo>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  forward({ stateless, target, client }: StatelessCall): void {
    const { request, envelope, exchange } = stateless;
    const { logLevel, declared } = envelope;
    const serverInfo = this.#serverInfo(target.handshake);
    const shape = {
      method: request.method,
      serverInfo,
      uriText: request.outline.copyAt(Slot.uri),
      declaresUrl: declared.url,
    };
    if (logLevel !== undefined) this.#raiseLevel(client, logLevel, target);
    const rewrite: Rewrite = (body, response) => responseToModernClient(body, findResult(body, exchange.idText, response), shape);
    const wrapped = new StatelessExchange(exchange, { rewrite, addedBytes: serverInfo.addedBytes, logLevel });
    target.lane.request(client, wrapped, requestToLegacyServer(request));
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
    const former = this.#levels.get(client);
    if (former !== undefined && LOG_LEVELS.indexOf(former) <= LOG_LEVELS.indexOf(level)) return;
    if (readCapabilities(handshake.resultText)["logging"] === undefined) return;
    this.#levels.set(client, level);
    // Without a result, the next request asks again.
    const onResult = (resultText: string | undefined): void => {
      if (resultText === undefined) this.#levels.delete(client);
    };
    const exchange = new InternalExchange(this.#nowMs(), () => undefined, onResult);
    lane.request(client, exchange, internalRequest("logging/setLevel", { level }));
  }
}
