import type { RequestMessage } from "../jsonrpc/message.ts";
import { negotiateProtocolVersion } from "../jsonrpc/protocol-versions.ts";
import { applyEdits, findPath } from "../jsonrpc/splice.ts";
import type { UpstreamHandshake } from "./upstream.ts";

/**
 * Answers a client's `initialize` from the server's handshake with the sidecar. All of the server's result is passed on as it came;
 * only the revision is negotiated with each client, since the sidecar speaks all of them.
 */
export function answerInitialize(
  handshake: UpstreamHandshake,
  request: RequestMessage,
  idText: string,
): { readonly protocolVersion: string; readonly body: string } {
  const { resultText } = handshake;
  const protocolVersion = negotiateProtocolVersion(request.params?.["protocolVersion"]);
  const span = findPath(resultText, 0, ["protocolVersion"]);
  const result = span === undefined ? resultText : applyEdits(resultText, [{ span, text: JSON.stringify(protocolVersion) }]);
  return { protocolVersion, body: `{"jsonrpc":"2.0","id":${idText},"result":${result}}` };
}
