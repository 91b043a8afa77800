import { applyEdits, type Edit, removeMember } from "../../json/edit.ts";
import { findPath } from "../../json/find.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "../../protocol/message.ts";
import { negotiateProtocolVersion } from "../../protocol/versions.ts";
import type { InitializeAnswer } from "../routing/routing.ts";
import { readCapabilities } from "./capabilities.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";

/**
 * Answers a client's `initialize` from a shared server's handshake. The client gets the server's result byte for byte, with two exceptions.
 * The revision is negotiated with each client, since the sidecar supports all of them. `tasks.list` is removed, because a shared server
 * cannot identify its requestors (MCP 2025-11-25, basic/utilities/tasks).
 */
export function answerInitialize({ resultText }: UpstreamHandshake, request: RequestMessage, idText: string): InitializeAnswer {
  const protocolVersion = negotiateProtocolVersion(request.outline.stringAt(Slot.requestedVersion));
  const edits: Edit[] = [];
  const versionSpan = findPath(resultText, 0, ["protocolVersion"]);
  if (versionSpan !== undefined) edits.push({ ...versionSpan, text: JSON.stringify(protocolVersion) });
  const tasksSpan = findPath(resultText, 0, ["capabilities", "tasks"]);
  if (tasksSpan !== undefined && resultText[tasksSpan.start] === "{") edits.push(...removeMember(resultText, tasksSpan.start, "list"));
  return { protocolVersion, body: `{"jsonrpc":"2.0","id":${idText},"result":${applyEdits(resultText, edits)}}` };
}

/** Returns the capabilities in the result of `answerInitialize`. */
export function sharedCapabilities({ resultText }: UpstreamHandshake): JsonObject {
  const capabilities = readCapabilities(resultText);
  const { tasks } = capabilities;
  if (!isJsonObject(tasks)) return capabilities;
  const { list: _, ...others } = tasks;
  return { ...capabilities, tasks: others };
}
