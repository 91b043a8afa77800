import { applyEdits, type Edit, removeMember } from "../../json/edit.ts";
import { findPath } from "../../json/find.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "../../protocol/message.ts";
import { negotiateProtocolVersion } from "../../protocol/versions.ts";
import type { LaneLimits } from "../lane-limits.ts";
import { type Capabilities, readCapabilities } from "./capabilities.ts";
import type { UpstreamHandshake } from "../../upstream/port.ts";

/** The response to a client's `initialize`: the negotiated revision and the JSON text. */
interface InitializeAnswer {
  readonly protocolVersion: string;
  readonly body: string;
}

/** The rules by which a lane answers the `initialize` of clients from its own handshake with the server. */
export interface InitializeRules {
  /** Returns the time that an `initialize` waits for the server. */
  timeoutMs(limits: LaneLimits): number;
  /** True if a client's `initialize` fails with the server's error; false if it waits for the next start of the server. */
  readonly isRefusalFinal: boolean;
  answer(handshake: UpstreamHandshake, request: RequestMessage, idText: string): InitializeAnswer;
  /** Returns the revision and capabilities that a client relies on after `answer`. */
  capabilities(handshake: UpstreamHandshake): Capabilities;
}

/** The server is restarted until it accepts the sidecar's own `initialize`. */
export const SHARED_INITIALIZE: InitializeRules = {
  timeoutMs: ({ holdTimeoutMs }) => holdTimeoutMs,
  isRefusalFinal: false,
  answer: answerInitialize,
  // The sidecar supports every revision, independent of the server's.
  capabilities: (handshake) => ({ protocolVersion: undefined, declared: sharedCapabilities(handshake) }),
};

/** The server gets the client's own `initialize`, and the client gets the server's own response. */
export const PRIVATE_INITIALIZE: InitializeRules = {
  timeoutMs: ({ requestTimeoutMs }) => requestTimeoutMs,
  isRefusalFinal: true,
  answer: ({ resultText, protocolVersion }, _request, idText) => ({
    protocolVersion,
    body: `{"jsonrpc":"2.0","id":${idText},"result":${resultText}}`,
  }),
  capabilities: ({ resultText, protocolVersion }) => ({ protocolVersion, declared: readCapabilities(resultText) }),
};

/**
 * Answers a client's `initialize` from a shared server's handshake. The client gets the server's result byte for byte, with two exceptions.
 * The revision is negotiated with each client, since the sidecar supports all of them. `tasks.list` is removed, because a shared server
 * cannot identify its requestors (MCP 2025-11-25, basic/utilities/tasks).
 */
function answerInitialize({ resultText }: UpstreamHandshake, request: RequestMessage, idText: string): InitializeAnswer {
  const protocolVersion = negotiateProtocolVersion(request.outline.stringAt(Slot.requestedVersion));
  const edits: Edit[] = [];
  const versionSpan = findPath(resultText, 0, ["protocolVersion"]);
  if (versionSpan !== undefined) edits.push({ ...versionSpan, text: JSON.stringify(protocolVersion) });
  const tasksSpan = findPath(resultText, 0, ["capabilities", "tasks"]);
  if (tasksSpan !== undefined && resultText[tasksSpan.start] === "{") edits.push(...removeMember(resultText, tasksSpan.start, "list"));
  return { protocolVersion, body: `{"jsonrpc":"2.0","id":${idText},"result":${applyEdits(resultText, edits)}}` };
}

/** Returns the capabilities in the result of `answerInitialize`. */
function sharedCapabilities({ resultText }: UpstreamHandshake): JsonObject {
  const capabilities = readCapabilities(resultText);
  const { tasks } = capabilities;
  if (!isJsonObject(tasks)) return capabilities;
  const { list: _, ...others } = tasks;
  return { ...capabilities, tasks: others };
}
