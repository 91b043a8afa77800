// The connection of a device: its messages, and its calls in flight.

import { randomUUID } from "node:crypto";
import type { RawData, WebSocket } from "ws";
import { log, quote } from "../log.ts";
import { parseMessage, type ToDevice, type ToolAnswer } from "./messages.ts";
import { RateLimit } from "./rate-limit.ts";
import { failure, type ToolContext, type ToolResult } from "../registry.ts";
import type { Limits } from "../settings.ts";

/** Dropped messages, without late answers. */
const MAX_UNEXPECTED_PER_MINUTE = 100;
/** Calls that have ended without an answer, whose late answers are expected. */
const MAX_REMEMBERED_CALLS = 1000;

/** Close codes of RFC 6455, section 7.4, and one of the private range. */
export const CLOSE = { goingAway: 1001, unsupportedData: 1003, policyViolation: 1008, replaced: 4001 } as const;

export interface ConnectionEvents {
  /** `register_tools`. */
  readonly onRegister: (connection: DeviceConnection, tools: readonly unknown[]) => void;
  /** Happens once, before its calls fail. */
  readonly onEnd: (connection: DeviceConnection) => void;
}

export class DeviceConnection {
  /** As in `ToolSource`. */
  readonly session = randomUUID();
  readonly device: string;
  isRegistered = false;
  /** Messages that answered no call in flight. */
  dropped = 0;
  readonly #socket: WebSocket;
  readonly #limits: Limits;
  readonly #events: ConnectionEvents;
  readonly #calls = new Map<string, (result: ToolResult) => void>();
  readonly #endedCalls = new Set<string>();
  readonly #unexpected = new RateLimit(MAX_UNEXPECTED_PER_MINUTE);
  readonly #registerTimer: NodeJS.Timeout;
  #isAlive = true;
  #isEnded = false;

  constructor(device: string, socket: WebSocket, limits: Limits, events: ConnectionEvents) {
    this.device = device;
    this.#socket = socket;
    this.#limits = limits;
    this.#events = events;
    const onLate = (): void => this.end(CLOSE.policyViolation, `no register_tools within ${limits.registerTimeoutMs} ms`);
    this.#registerTimer = setTimeout(onLate, limits.registerTimeoutMs);
    socket.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
    socket.on("pong", () => (this.#isAlive = true));
    // Such as a message that is too long. The event `close` follows.
    socket.on("error", (error) => log(`${device}: ${error.message}`));
    socket.on("close", () => this.end(CLOSE.goingAway, "disconnected"));
  }

  get callsInFlight(): number {
    return this.#calls.size;
  }

  /** Calls a tool by the name that the device uses. Never rejects. */
  call(name: string, args: object, { callId: id, signal }: ToolContext): Promise<ToolResult> {
    const text = JSON.stringify({ type: "tool_call_request", id, name, args } satisfies ToDevice);
    if (this.#isEnded) return Promise.resolve(failure(`${this.device} is disconnected`));
    if (signal.aborted) return Promise.resolve(failure("the call was cancelled"));
    if (this.#calls.size >= this.#limits.maxCallsPerDevice) {
      return Promise.resolve(failure(`${this.device} has ${this.#calls.size} calls in flight; try again later`));
    }
    if (Buffer.byteLength(text) > this.#limits.maxOutputBytes) return Promise.resolve(failure("the arguments are too large"));
    return new Promise((resolve) => {
      const settle = (result: ToolResult): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onCancelled);
        this.#calls.delete(id);
        resolve(result);
      };
      const giveUp = (reason: string): void => {
        this.#endedCalls.add(id);
        const [oldest = ""] = this.#endedCalls;
        if (this.#endedCalls.size > MAX_REMEMBERED_CALLS) this.#endedCalls.delete(oldest);
        settle(failure(reason));
      };
      const onCancelled = (): void => giveUp("the call was cancelled");
      const timeoutMs = this.#limits.callTimeoutMs;
      const timer = setTimeout(() => giveUp(`${this.device} has not answered within ${timeoutMs} ms`), timeoutMs);
      signal.addEventListener("abort", onCancelled);
      this.#calls.set(id, settle);
      this.#sendText(text);
    });
  }

  send(message: ToDevice): void {
    this.#sendText(JSON.stringify(message));
  }

  /** Disconnects a device that has not answered the last ping, and sends the next one. */
  checkAlive(): void {
    if (!this.#isAlive) return this.terminate("has not answered a ping");
    this.#isAlive = false;
    this.#socket.ping();
  }

  /** Ends the connection and all its calls at once. @param reason at most 123 bytes, sent to the device. */
  end(code: number, reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#registerTimer);
    log(`${this.device}: ${reason}`);
    this.#events.onEnd(this);
    for (const settle of this.#calls.values()) settle(failure(`${this.device} disconnected during the call: ${reason}`));
    this.#socket.close(code, reason);
  }

  /** Ends the connection without the closing handshake. */
  terminate(reason: string): void {
    this.end(CLOSE.policyViolation, reason);
    this.#socket.terminate();
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#isEnded) return;
    if (isBinary) return this.end(CLOSE.unsupportedData, "messages must be text");
    const message = parseMessage((data as Buffer).toString());
    switch (message.type) {
      case "register_tools":
        clearTimeout(this.#registerTimer);
        return this.#events.onRegister(this, message.tools);
      case "tool_result":
      case "tool_error":
        return this.#onAnswer(message.id, resultOf(message, this.#limits.maxOutputBytes));
      case "malformed_answer":
        return this.#onAnswer(message.id, failure(`${this.device} has sent a malformed answer: ${message.reason}`));
      case "unknown":
        return this.#drop(`the type ${quote(message.name)} is unknown`);
      case "malformed":
        return this.end(CLOSE.policyViolation, message.reason.slice(0, 100));
    }
  }

  /** Only answers to calls of this connection are accepted, and one for each. */
  #onAnswer(id: string, result: ToolResult): void {
    const settle = this.#calls.get(id);
    if (settle === undefined) return this.#drop("an answer to no call in flight", this.#endedCalls.delete(id));
    settle(result);
    this.send({ type: "result_acknowledged", id });
  }

  /** @param isExpected true if the device is not to blame. */
  #drop(what: string, isExpected = false): void {
    this.dropped += 1;
    log(`${this.device}: dropped: ${what}`);
    if (!isExpected && !this.#unexpected.take("")) this.end(CLOSE.policyViolation, "too many messages that answer nothing");
  }

  #sendText(text: string): void {
    if (this.#socket.bufferedAmount > this.#limits.maxOutputBytes) return this.terminate("does not read its messages");
    this.#socket.send(text, () => undefined);
  }
}

/** An answer that contradicts itself is a failure. */
function resultOf(answer: ToolAnswer, maxBytes: number): ToolResult {
  const text = answer.type === "tool_result" ? answer.output : answer.error;
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) return failure(`the answer has ${bytes} bytes, and at most ${maxBytes} are allowed`);
  if (answer.type === "tool_error") return failure(text);
  return answer.success === false ? failure(text || "the device reports a failure") : { success: true, output: text };
}
