// The connection of a device: its messages, and its calls in flight.

import { randomUUID } from "node:crypto";
import type { RawData, WebSocket } from "ws";
import { limitedLog, log } from "../log.ts";
import { parseMessage, type ToDevice, type ToolAnswer } from "./messages.ts";
import { failure, type ToolContext, type ToolResult } from "../registry.ts";
import type { Limits } from "../settings.ts";

/** Even a short message or ping takes this much of what a device may send, as it takes the time of the gateway. */
const MIN_COST_BYTES = 1024;

/** Close codes of RFC 6455, section 7.4, and one of the private range. */
export const CLOSE = { goingAway: 1001, unsupportedData: 1003, policyViolation: 1008, replaced: 4001 } as const;

interface ConnectionEvents {
  /** `register_tools`. */
  readonly onRegister: (connection: DeviceConnection, tools: readonly unknown[]) => void;
  /** Bytes that nobody has asked for, besides those on the wire. A negative number: those on the wire were asked for. */
  readonly onUnasked: (bytes: number) => void;
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
  /** Each call allows one message, late or not, whether the client waits for it or has cancelled the call. */
  #unanswered = 0;
  readonly #logDropped = limitedLog();
  readonly #registrationTimer: NodeJS.Timeout;
  #isAlive = true;
  #isEnded = false;

  constructor(device: string, socket: WebSocket, limits: Limits, events: ConnectionEvents) {
    this.device = device;
    this.#socket = socket;
    this.#limits = limits;
    this.#events = events;
    const onLate = (): void => this.end(CLOSE.policyViolation, "has not registered its tools in time");
    this.#registrationTimer = setTimeout(() => this.isRegistered || onLate(), limits.registrationTimeoutMs);
    socket.on("message", (data, isBinary) => this.#onMessage(data, isBinary));
    socket.on("pong", () => {
      this.#isAlive = true;
      events.onUnasked(MIN_COST_BYTES);
    });
    // The library itself ends a connection on which 60 pongs could not be written yet.
    socket.on("ping", () => events.onUnasked(MIN_COST_BYTES));
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
    const obstacle = signal.aborted ? "the call was cancelled" : this.#obstacleTo(text);
    if (obstacle !== undefined) return Promise.resolve(failure(obstacle));
    return new Promise((resolve) => {
      const settle = (result: ToolResult): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onCancelled);
        this.#calls.delete(id);
        resolve(result);
      };
      const giveUp = (reason: string): void => settle(failure(reason));
      const onCancelled = (): void => giveUp("the call was cancelled");
      const { callTimeoutMs } = this.#limits;
      const onTimeout = (): void => giveUp(`Remote tool timeout (${callTimeoutMs / 1000}s): ${this.device} has not answered`);
      const timer = setTimeout(onTimeout, callTimeoutMs);
      signal.addEventListener("abort", onCancelled);
      this.#calls.set(id, settle);
      this.#unanswered += 1;
      this.#socket.send(text, () => undefined);
    });
  }

  send(message: ToDevice): void {
    if (this.#isReading()) this.#socket.send(JSON.stringify(message), () => undefined);
  }

  /** Disconnects a device that has not answered the last ping, and sends the next one. */
  checkAlive(): void {
    if (!this.#isAlive) return this.#terminate("has not answered a ping");
    this.#isAlive = false;
    this.#socket.ping();
  }

  /** Ends the connection and all its calls at once. @param reason at most 123 bytes, sent to the device. */
  end(code: number, reason: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#registrationTimer);
    log(`${this.device}: ${reason}`);
    this.#events.onEnd(this);
    for (const settle of this.#calls.values()) settle(failure(`Channel closed: ${this.device} disconnected during the call: ${reason}`));
    this.#socket.close(code, reason);
  }

  /** Ends the connection, and reads nothing more: the device may go on sending, and to read that takes time too. */
  endUnread(reason: string): void {
    this.end(CLOSE.policyViolation, reason);
    this.#socket.pause();
  }

  /** Returns the reason why a call cannot be sent now. */
  #obstacleTo(text: string): string | undefined {
    const { maxCallsPerDevice, maxOutputBytes } = this.#limits;
    const bytes = Buffer.byteLength(text);
    if (this.#isEnded) return `${this.device} is disconnected`;
    if (this.#calls.size >= maxCallsPerDevice) return `${this.device} has ${this.#calls.size} calls in flight; try again later`;
    if (bytes > maxOutputBytes) return "the arguments are too large";
    if (this.#socket.bufferedAmount + bytes > 2 * maxOutputBytes) return `${this.device} still reads earlier calls; try again later`;
    return undefined;
  }

  /** Ends the connection if its buffer has much more than calls can put into it. */
  #isReading(): boolean {
    if (this.#socket.bufferedAmount > 3 * this.#limits.maxOutputBytes) this.#terminate("does not read its messages");
    return !this.#isEnded;
  }

  /** Ends the connection without the closing handshake. */
  #terminate(reason: string): void {
    this.end(CLOSE.policyViolation, reason);
    this.#socket.terminate();
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#isEnded) return;
    if (isBinary) return this.end(CLOSE.unsupportedData, "messages must be text");
    const { length } = data as Buffer;
    const message = parseMessage(data as Buffer);
    if (message instanceof Error) return this.end(CLOSE.policyViolation, message.message.slice(0, 100));
    const isAnswer = message !== undefined && message.type !== "register_tools";
    const isAsked = isAnswer && this.#unanswered > 0;
    if (isAsked) this.#unanswered -= 1;
    this.#events.onUnasked(isAsked ? -length : Math.max(0, MIN_COST_BYTES - length));
    if (this.#isEnded) return;
    if (message === undefined) this.#drop("a message of an unknown type");
    else if (message.type === "register_tools") this.#events.onRegister(this, message.tools);
    else this.#onAnswer(message);
  }

  /** Only answers to calls of this connection are accepted, and one for each. */
  #onAnswer(answer: ToolAnswer): void {
    const settle = this.#calls.get(answer.id);
    if (settle === undefined) return this.#drop("an answer to no call in flight");
    settle(resultOf(answer, this.#limits.maxOutputBytes));
    this.send({ type: "result_acknowledged", id: answer.id });
  }

  #drop(description: string): void {
    this.dropped += 1;
    this.#logDropped(`${this.device}: dropped: ${description}`);
  }
}

/** An answer that contradicts itself is a failure. */
function resultOf(answer: ToolAnswer, maxBytes: number): ToolResult {
  const text = answer.type === "tool_result" ? answer.output : answer.error;
  const bytes = Buffer.byteLength(text);
  if (bytes > maxBytes) return failure(`the answer has ${bytes} bytes, and at most ${maxBytes} are allowed`);
  return answer.type === "tool_error" || answer.success === false ? failure(text) : { success: true, output: text };
}
