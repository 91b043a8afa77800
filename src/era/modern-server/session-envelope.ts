import { type Edit, setMembers } from "../../json/edit.ts";
import { findMembers, findPath } from "../../json/find.ts";
import { type AskKinds, capabilitiesFor, declaredKinds } from "../asks/ask-kinds.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";
import { firstOfParams } from "../../protocol/rewrite.ts";
import { NEWEST_MODERN_PROTOCOL_VERSION } from "../../protocol/versions.ts";

/** A longer `clientInfo`, such as one with icons, is not part of each request. In characters of JSON. */
const MAX_INFO_LENGTH = 512;
const UNKNOWN_CLIENT = '{"name":"unknown","version":"0"}';
/** The level in place of one that a client has put into its request without `logging/setLevel`. Hardly any message has it. */
const QUIET_LEVEL = "emergency";

/** The members that each request of a session has for a server without sessions (MCP 2026-07-28, basic, per-request protocol fields). */
export class SessionEnvelope {
  /** The questions that the client can answer. */
  readonly declared: AskKinds;
  readonly #members: readonly (readonly [name: string, valueText: string])[];

  /** @param initialize that of the session. */
  constructor({ text, outline }: RequestMessage) {
    const params = outline.span(Slot.params);
    const info = params === undefined ? undefined : clientInfoText(text, params.start);
    const capabilities = params === undefined ? undefined : findPath(text, params.start, ["capabilities"]);
    this.declared = capabilities === undefined || text[capabilities.start] !== "{" ? 0 : declaredKinds(text, capabilities.start);
    this.#members = [
      [MetaKey.protocolVersion, JSON.stringify(NEWEST_MODERN_PROTOCOL_VERSION)],
      [MetaKey.clientCapabilities, JSON.stringify(capabilitiesFor(this.declared))],
      [MetaKey.clientInfo, info ?? UNKNOWN_CLIENT],
    ];
  }

  /** Returns the log level of a request. @param level that of `logging/setLevel`. */
  static levelOf({ text, outline }: RequestMessage, level: string | undefined): string | undefined {
    const meta = outline.span(Slot.meta);
    if (level !== undefined || meta === undefined) return level;
    return findMembers(text, meta.start, [MetaKey.logLevel]).spans[0] === undefined ? undefined : QUIET_LEVEL;
  }

  /** True if the client has put one of these members into its request twice. */
  static isAmbiguous({ text, outline }: RequestMessage): boolean {
    const meta = outline.span(Slot.meta);
    return meta !== undefined && findMembers(text, meta.start, Object.values(MetaKey)).duplicate !== undefined;
  }

  /**
   * Returns a request with these members. Those of the client are overwritten.
   *
   * @param level that of `levelOf`.
   * @param params the JSON text of more members of its params; empty for none.
   */
  addTo(request: RequestMessage, level: string | undefined, params = ""): RequestMessage {
    const { text, outline } = request;
    const meta = outline.span(Slot.meta);
    const members = level === undefined ? this.#members : [...this.#members, [MetaKey.logLevel, JSON.stringify(level)] as const];
    if (meta !== undefined) return { ...request, edits: [...paramsEdits(request, params), ...setMembers(text, meta.start, members)] };
    const metaText = `{${members.map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(",")}}`;
    return { ...request, edits: paramsEdits(request, `"_meta":${metaText}${params === "" ? "" : `,${params}`}`) };
  }
}

/** Returns the edit that puts members first in the params. @param members their JSON text; empty for none. */
function paramsEdits(request: RequestMessage, members: string): Edit[] {
  const edit = members === "" ? undefined : firstOfParams(request, members);
  return edit === undefined ? [] : [edit];
}

/** Returns the JSON text of the client's name and version; undefined if it has none. */
function clientInfoText(text: string, params: number): string | undefined {
  const span = findPath(text, params, ["clientInfo"]);
  if (span === undefined || text[span.start] !== "{") return undefined;
  const parts = findMembers(text, span.start, ["name", "version"]).spans;
  if (parts.some((part) => part === undefined || text[part.start] !== '"')) return undefined;
  if (span.end - span.start <= MAX_INFO_LENGTH) return copyOf(text.slice(span.start, span.end));
  const [name, version] = parts.map((part) => (part === undefined ? "" : text.slice(part.start, part.end)));
  const short = `{"name":${name},"version":${version}}`;
  return short.length <= MAX_INFO_LENGTH ? copyOf(short) : undefined;
}

/** Returns a copy of a slice. V8 would keep the whole `initialize` in memory for a slice, as long as the session. */
function copyOf(slice: string): string {
  return Buffer.from(slice).toString();
}
