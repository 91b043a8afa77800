// A device: connects to the gateway, registers its tools, and executes their calls one after the other. "Remote Tool Call Mechanism",
// Client-Side Implementation.

import { setTimeout as delay } from "node:timers/promises";
import { WebSocket } from "ws";
import { z } from "zod";
import { parseJson } from "../json.ts";
import { log } from "../log.ts";
import { withTimeLimit } from "../time-limit.ts";

export interface DeviceTool {
  readonly name: string;
  readonly description: string;
  readonly parameters: z.ZodObject;
  /** Returns the output. An error that it throws is the answer of the call. @param args match `parameters`. */
  readonly execute: (args: Readonly<Record<string, unknown>>) => string | Promise<string>;
}

export interface DeviceOptions {
  /** The URL of the gateway. */
  readonly url: string;
  readonly token?: string | undefined;
  readonly tools: readonly DeviceTool[];
}

const Message = z.discriminatedUnion("type", [
  z.object({ type: z.literal("tool_call_request"), id: z.string().max(200), name: z.string(), args: z.record(z.string(), z.unknown()) }),
  z.object({ type: z.literal("tools_registered"), count: z.number(), registered: z.number(), rejected: z.array(z.unknown()).default([]) }),
]);
type ToolCallRequest = Extract<z.infer<typeof Message>, { type: "tool_call_request" }>;

const MAX_MESSAGE_BYTES = 4_194_304;
/** Answers that the gateway has not read yet. */
const MAX_BUFFERED_BYTES = 8_388_608;
const MAX_REPORTED_REJECTIONS = 20;
const MAX_QUEUED_CALLS = 16;
/** The time limit of the gateway. A tool that needs longer must not block the others. */
const TOOL_TIMEOUT_MS = 30_000;
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** The gateway pings every 15 seconds. */
const SILENCE_TIMEOUT_MS = 45_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 30_000;
/** Another device with the same name took over: to reconnect would disconnect that one. */
const CLOSED_AS_REPLACED = 4001;

export class DeviceClient {
  readonly #options: DeviceOptions;
  readonly #stopped = new AbortController();
  #queue: Promise<void> = Promise.resolve();
  #queued = 0;
  #pauseMs = FIRST_PAUSE_MS;

  constructor(options: DeviceOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** Stays connected until `stop`. @throws Error if another device took its name. */
  async run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      if (await this.#connection()) throw new Error("another device with the same name has connected");
      if (this.#stopped.signal.aborted) return;
      // Devices that have lost the same gateway come back at different times.
      const pauseMs = this.#pauseMs * (0.5 + Math.random() / 2);
      this.#pauseMs = Math.min(2 * this.#pauseMs, LONGEST_PAUSE_MS);
      await delay(pauseMs, undefined, { signal: this.#stopped.signal }).catch(() => undefined);
    }
  }

  /** Connects once. @returns when disconnected: true if another device took its name. */
  #connection(): Promise<boolean> {
    const { url, token, tools } = this.#options;
    const options = {
      ...(token === undefined ? {} : { headers: { Authorization: `Bearer ${token}` } }),
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      maxPayload: MAX_MESSAGE_BYTES,
      perMessageDeflate: false,
      closeTimeout: 1000,
    };
    const socket = new WebSocket(url, options);
    const silence = setTimeout(() => socket.terminate(), SILENCE_TIMEOUT_MS);
    const close = (): void => socket.close(1000);
    this.#stopped.signal.addEventListener("abort", close);
    return new Promise((resolve) => {
      socket.on("open", () => {
        const specs = tools.map(({ name, description, parameters }) => ({ name, description, parameters: z.toJSONSchema(parameters) }));
        socket.send(JSON.stringify({ type: "register_tools", tools: specs }));
      });
      socket.on("ping", () => {
        silence.refresh();
        checkBuffer(socket);
      });
      socket.on("message", (data) => this.#onMessage(socket, (data as Buffer).toString()));
      let isRejected = false;
      socket.on("unexpected-response", (_, response) => {
        isRejected = true;
        let reason = "";
        response.on("data", (body: Buffer) => (reason ||= body.toString()));
        response.once("close", () => {
          log(`rejected: HTTP ${response.statusCode}: ${reason}`);
          socket.terminate();
        });
      });
      // The end of a rejected connection is an error too.
      socket.on("error", (error) => isRejected || log(error.message));
      socket.on("close", (code, reason) => {
        clearTimeout(silence);
        this.#stopped.signal.removeEventListener("abort", close);
        log(`disconnected: ${code} ${reason.toString()}`);
        resolve(code === CLOSED_AS_REPLACED);
      });
    });
  }

  #onMessage(socket: WebSocket, text: string): void {
    const { data: message } = Message.safeParse(parseJson(text));
    // One that this device does not know is ignored.
    if (message === undefined) return;
    if (message.type === "tools_registered") {
      this.#pauseMs = FIRST_PAUSE_MS;
      log(`registered ${message.registered} of ${message.count} tools`);
      for (const each of message.rejected.slice(0, MAX_REPORTED_REJECTIONS)) log(`not registered: ${JSON.stringify(each)}`);
      return;
    }
    const answer = (body: object): void => {
      checkBuffer(socket);
      socket.send(JSON.stringify({ ...body, id: message.id }), () => undefined);
    };
    if (this.#queued >= MAX_QUEUED_CALLS) return answer({ type: "tool_error", error: "The device is busy", success: false });
    this.#queued += 1;
    this.#queue = this.#queue.then(async () => {
      // A caller that has gone needs no execution.
      if (socket.readyState === WebSocket.OPEN) answer(await this.#answerTo(message));
      this.#queued -= 1;
    });
  }

  async #answerTo({ name, args }: ToolCallRequest): Promise<object> {
    const tool = this.#options.tools.find((each) => each.name === name);
    if (tool === undefined) return { type: "tool_error", error: "No handler registered", success: false };
    try {
      const output = await withTimeLimit(TOOL_TIMEOUT_MS, () => tool.execute(tool.parameters.parse(args)));
      return { type: "tool_result", output, success: true };
    } catch (error) {
      const text = error instanceof z.ZodError ? z.prettifyError(error) : (error as Error).message;
      return { type: "tool_error", error: text, success: false };
    }
  }
}

/** Pongs need memory too. */
function checkBuffer(socket: WebSocket): void {
  if (socket.bufferedAmount <= MAX_BUFFERED_BYTES) return;
  log("the gateway does not read its messages");
  socket.terminate();
}
