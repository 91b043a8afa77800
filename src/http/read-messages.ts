import type { IncomingMessage } from "node:http";
import type { Defects } from "../defects.ts";
import { SidecarError } from "../errors.ts";
import { EnvelopeScanner } from "../json/envelope-scanner.ts";
import { checkClientBatch, checkClientMessage } from "../jsonrpc/client-message.ts";
import { LONG_TEXT_LENGTH, type Message, readInSteps, type Reading, readText } from "../jsonrpc/message.ts";
import { runInSteps } from "../step-queue.ts";
import { sendDefect, sendProblem } from "./json-response.ts";
import type { Post } from "./post-route.ts";
import { readBody } from "./read-body.ts";
import { refuse } from "./refuse.ts";

export interface ReadMessagesOptions {
  readonly maxBodyBytes: number;
  readonly defects: Defects;
}

/**
 * Reads what a POST brings, and refuses it if it is not a message, or a batch of them. A long body is read in steps.
 *
 * @param refuseLong is asked before more than 64 KiB are read; `beginning` is what has come so far. @returns whether it has answered.
 * @param onMessages is called once at most, maybe in a later turn; by then the client may be gone.
 */
export function readMessages(
  { request, response }: Post,
  { maxBodyBytes, defects }: ReadMessagesOptions,
  refuseLong: (beginning: Buffer) => boolean,
  onMessages: (messages: Message | Message[]) => void,
): void {
  let isHandedOn = false;
  const fail = (): void => sendDefect(response, isHandedOn);
  const guard = (handle: () => void): void => defects.guard("http body", handle, fail);
  readBody(request, maxBodyBytes, {
    isRefused: (beginning) => {
      // A defect refuses, too.
      let isRefused = true;
      guard(() => {
        isRefused = refuseLong(beginning);
      });
      return isRefused;
    },
    onBody: (body) => guard(() => take(body)),
  });

  function take(body: string | SidecarError): void {
    if (body instanceof SidecarError) return refuse(request, response, body);
    if (body.length <= LONG_TEXT_LENGTH) return carry(readText(body));
    const onDefect = (error: unknown): void => {
      defects.note("http body", error);
      guard(fail);
    };
    runInSteps(readInSteps(body), carry, onDefect);
  }

  function carry(reading: Reading): void {
    const messages = reading.kind === "batch" ? checkClientBatch(reading) : checkClientMessage(reading);
    if ("code" in messages) sendProblem(response, messages);
    else {
      isHandedOn = true;
      onMessages(messages);
    }
  }
}

/** The first revision whose requests have no session (MCP 2026-07-28, basic/transports). */
const FIRST_WITHOUT_SESSIONS = "2026-07-28";

/** True for a long body of `initialize`, as far as its beginning tells, or of a revision without sessions. */
export function needsNoSession({ headers }: IncomingMessage, beginning: Buffer): boolean {
  const { "mcp-protocol-version": protocolVersion } = headers;
  if (/^\d{4}-\d{2}-\d{2}$/.test(String(protocolVersion)) && String(protocolVersion) >= FIRST_WITHOUT_SESSIONS) return true;
  const envelope = new EnvelopeScanner();
  envelope.push(beginning.toString("utf8"));
  return envelope.methodText === '"initialize"';
}
