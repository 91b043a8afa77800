import { applyEdits, removeMember } from "../../json/edit.ts";
import { findMembers } from "../../json/find.ts";
import type { Span } from "../../json/strings.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../../protocol/versions.ts";

/** A longer `serverInfo`, such as one with icons, is not part of each result. In UTF-16 units. */
const MAX_INFO_LENGTH = 512;

/** Returns the JSON text of `serverInfo` in an `InitializeResult`, for each result. Of a long one, it has name and version. */
export function shortServerInfoText(initializeResult: string): string | undefined {
  const info = textOf(initializeResult, findMembers(initializeResult, 0, ["serverInfo"]).spans[0]);
  if (info === undefined || info.length <= MAX_INFO_LENGTH || !info.startsWith("{")) return info;
  const [name, version] = findMembers(info, 0, ["name", "version"]).spans.map((span) => textOf(info, span));
  return `{"name":${name ?? '""'},"version":${version ?? '""'}}`;
}

/**
 * Returns the `DiscoverResult` of a server with sessions, made of its `InitializeResult` (MCP 2026-07-28, server/discover). Its tasks are not
 * those of this revision.
 */
export function discoverResult(initializeResult: string): string {
  const [capabilities, instructions, serverInfo] = findMembers(initializeResult, 0, ["capabilities", "instructions", "serverInfo"]).spans;
  const isObject = capabilities !== undefined && initializeResult[capabilities.start] === "{";
  const declared = isObject ? textOf(initializeResult, capabilities) : undefined;
  const members: (readonly [name: string, valueText: string | undefined])[] = [
    ["resultType", '"complete"'],
    ["supportedVersions", JSON.stringify(MODERN_PROTOCOL_VERSIONS)],
    ["capabilities", declared === undefined ? "{}" : applyEdits(declared, removeMember(declared, 0, "tasks"))],
    ["instructions", textOf(initializeResult, instructions)],
    ["ttlMs", "0"],
    ["cacheScope", '"private"'],
    ["_meta", serverInfo === undefined ? undefined : `{${JSON.stringify(MetaKey.serverInfo)}:${textOf(initializeResult, serverInfo)}}`],
  ];
  return `{${members.flatMap(([name, valueText]) => (valueText === undefined ? [] : [`${JSON.stringify(name)}:${valueText}`])).join(",")}}`;
}

function textOf(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}
