import { applyEdits, removeMember } from "../../json/edit.ts";
import { findMembers, textOf } from "../../json/find.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import { MODERN_PROTOCOL_VERSIONS } from "../../protocol/versions.ts";

/** A longer `serverInfo`, such as one with icons, is not part of each result. In characters of JSON. */
const MAX_INFO_LENGTH = 512;

/**
 * Returns the JSON text of `serverInfo` in an `InitializeResult`, for each result. Of a long one, it has name and version. Returns undefined
 * if these are too long, or if it is no object.
 */
export function shortServerInfoText(initializeResult: string): string | undefined {
  const info = textOf(initializeResult, findMembers(initializeResult, 0, ["serverInfo"]).spans[0]);
  if (info?.startsWith("{") !== true) return undefined;
  if (info.length <= MAX_INFO_LENGTH) return info;
  const [name, version] = findMembers(info, 0, ["name", "version"]).spans.map((span) => textOf(info, span));
  const short = `{"name":${name ?? '""'},"version":${version ?? '""'}}`;
  return short.length <= MAX_INFO_LENGTH ? short : undefined;
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
