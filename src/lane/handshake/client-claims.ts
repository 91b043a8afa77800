import { findMembers, findPath, textOf } from "../../json/find.ts";
import { parseJson } from "../../json/values.ts";
import { checkClientMessage } from "../../protocol/client-message.ts";
import { isJsonObject, readText, type RequestMessage, Slot } from "../../protocol/message.ts";
import type { ClientClaims } from "../../sessions/ids/session-ids.ts";
import type { SessionClaims } from "../../sessions/ids/session-claims.ts";
import { needsOwnServer } from "../isolation.ts";

/** A longer `clientInfo`, such as one with icons, is shortened to the name and the version. In characters of JSON. */
const MAX_INFO_LENGTH = 128;

/** Returns all about a client that a server at another replica is told. @param initialize that of the client. */
export function claimsOf(initialize: RequestMessage, protocolVersion: string, isPrivate: boolean): ClientClaims {
  const { text, outline } = initialize;
  const params = outline.span(Slot.params);
  const capabilities = params === undefined ? undefined : findPath(text, params.start, ["capabilities"]);
  return {
    protocolVersion,
    // Other values declare nothing.
    capabilitiesText:
      capabilities === undefined || text[capabilities.start] !== "{" ? "" : text.slice(capabilities.start, capabilities.end),
    clientInfoText: params === undefined ? "" : shortInfo(text, params.start),
    // A shared server without sessions may ask the client too, whatever ISOLATION is.
    needsCapabilities: isPrivate || needsOwnServer(initialize, "auto"),
  };
}

/**
 * Returns an `initialize` with the claims, in place of the one that the client has sent to another replica; undefined if the claims are not
 * valid. A client that knows the key, because it is derived from its token, can sign any.
 */
export function initializeOf({ protocolVersion, capabilitiesText, clientInfoText }: SessionClaims): RequestMessage | undefined {
  if (![capabilitiesText, clientInfoText].every((text) => text === "" || isObjectText(text))) return undefined;
  const params = [
    `"protocolVersion":${JSON.stringify(protocolVersion)}`,
    `"capabilities":${capabilitiesText === "" ? "{}" : capabilitiesText}`,
    `"clientInfo":${clientInfoText === "" ? '{"name":"unknown","version":"0"}' : clientInfoText}`,
  ];
  const reading = readText(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{${params.join(",")}}}`);
  const message = reading.kind === "batch" ? undefined : checkClientMessage(reading);
  return message !== undefined && "kind" in message && message.kind === "request" ? message : undefined;
}

function isObjectText(text: string): boolean {
  try {
    return text.startsWith("{") && isJsonObject(parseJson(text));
  } catch {
    return false;
  }
}

function shortInfo(text: string, params: number): string {
  const span = findPath(text, params, ["clientInfo"]);
  if (span === undefined || text[span.start] !== "{") return "";
  if (span.end - span.start <= MAX_INFO_LENGTH) return text.slice(span.start, span.end);
  const [name, version] = findMembers(text, span.start, ["name", "version"]).spans.map((part) => textOf(text, part));
  return name === undefined || version === undefined ? "" : `{"name":${name},"version":${version}}`;
}
