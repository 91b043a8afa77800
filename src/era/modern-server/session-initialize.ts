import { applyEdits, removeMember } from "../../json/edit.ts";
import { findMembers, findPath, textOf } from "../../json/find.ts";
import { readCapabilities } from "../../lane/handshake/capabilities.ts";
import type { InitializeRules } from "../../lane/handshake/initialize.ts";
import { MetaKey } from "../../protocol/meta-key.ts";
import { Slot } from "../../protocol/message.ts";
import { negotiateProtocolVersion } from "../../protocol/versions.ts";

/** The extension whose tasks are not those of a session (MCP 2026-07-28, extension tasks). */
const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";
/** An `InitializeResult` must have one. */
const UNKNOWN_SERVER = '{"name":"unknown","version":"0"}';

/** A client's `initialize` is answered from the discovery of a server without sessions (MCP 2026-07-28, basic/versioning). */
export const DISCOVERED_INITIALIZE: InitializeRules = {
  timeoutMs: ({ holdTimeoutMs }) => holdTimeoutMs,
  isRefusalFinal: false,
  answer: ({ resultText }, request, idText) => {
    const protocolVersion = negotiateProtocolVersion(request.outline.stringAt(Slot.requestedVersion));
    return { protocolVersion, body: `{"jsonrpc":"2.0","id":${idText},"result":${initializeResult(resultText, protocolVersion)}}` };
  },
  // The sidecar supports every revision with sessions.
  capabilities: ({ resultText }) => ({
    protocolVersion: undefined,
    declared: readCapabilities(`{"capabilities":${capabilitiesOf(resultText)}}`),
  }),
};

/** Returns the `InitializeResult` of a server without sessions, made of its `DiscoverResult`. */
function initializeResult(discoverResult: string, protocolVersion: string): string {
  const [instructions] = findMembers(discoverResult, 0, ["instructions"]).spans;
  const serverInfo = textOf(discoverResult, findPath(discoverResult, 0, ["_meta", MetaKey.serverInfo]));
  const members = [
    `"protocolVersion":${JSON.stringify(protocolVersion)}`,
    `"capabilities":${capabilitiesOf(discoverResult)}`,
    `"serverInfo":${isServerInfo(serverInfo) ? serverInfo : UNKNOWN_SERVER}`,
    ...(instructions === undefined || discoverResult[instructions.start] !== '"'
      ? []
      : [`"instructions":${textOf(discoverResult, instructions)}`]),
  ];
  return `{${members.join(",")}}`;
}

/** True if it has a name and a version, as clients expect. */
function isServerInfo(text: string | undefined): boolean {
  return (
    text?.startsWith("{") === true &&
    findMembers(text, 0, ["name", "version"]).spans.every((span) => span !== undefined && text[span.start] === '"')
  );
}

/** Returns the JSON text of the capabilities, without the tasks of the new revision. */
function capabilitiesOf(discoverResult: string): string {
  const text = textOf(discoverResult, findMembers(discoverResult, 0, ["capabilities"]).spans[0]);
  if (text?.startsWith("{") !== true) return "{}";
  const extensions = findPath(text, 0, ["extensions"]);
  const isObject = extensions !== undefined && text[extensions.start] === "{";
  const ofExtensions = isObject ? removeMember(text, extensions.start, TASKS_EXTENSION) : [];
  const withoutExtension = applyEdits(text, ofExtensions);
  return applyEdits(withoutExtension, removeMember(withoutExtension, 0, "tasks"));
}
