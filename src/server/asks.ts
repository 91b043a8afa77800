import { createHash } from "node:crypto";
import { type AskKinds, AskMethod, isSubset, kindsOf } from "../mcp/capabilities.ts";
import { JsonRpcErrorCode } from "../mcp/errors.ts";
import { type RequestMessage, Slot } from "../mcp/message.ts";
import { chosenKey, embeddedText, isAnswer, keyOf } from "../mcp/questions.ts";
import { type MemoryAccount, type Reservation, textMemoryBytes } from "../memory.ts";
import type { ServerAsk } from "../session/reply.ts";

interface OpenAsk {
  readonly ask: ServerAsk;
  readonly kinds: AskKinds;
  /** The JSON text for the `inputRequests` of the client, without the key. */
  readonly text: string;
  readonly memory: Reservation;
  /** True if the client has got it. A key alone could be that of a question that the server has withdrawn. */
  isShown: boolean;
}

/** A question is kept as the server's request, and as the text for the client. */
const ASK_COPIES = 2;

/** The questions of one call that are not answered. Each is answered or withdrawn once. */
export class OpenAsks {
  readonly #memory: MemoryAccount;
  /** Those that the client can answer, by key. */
  readonly #asks = new Map<string, OpenAsk>();

  /** Answers that the client has sent with its first request, by key. Each is used once. */
  readonly #early: Map<string, string>;

  constructor(memory: MemoryAccount, early: ReadonlyMap<string, string>) {
    this.#memory = memory;
    this.#early = new Map(early);
  }

  get isEmpty(): boolean {
    return this.#asks.size === 0;
  }

  /** Returns the JSON texts for the client, each with its key. Marks them as shown. */
  show(): string[] {
    for (const open of this.#asks.values()) open.isShown = true;
    return [...this.#asks].map(([key, { text }]) => `${JSON.stringify(key)}:${text}`);
  }

  add(ask: ServerAsk): void {
    const { request } = ask;
    const kinds = kindsOf(request);
    const memory = this.#memory.reserve("requests", ASK_COPIES * textMemoryBytes(request.text));
    if (memory === undefined) return refuse(ask, "The sidecar has no memory left for this question");
    const key = keyOf(request, this.#asks);
    const open = { ask, kinds, text: embeddedText(request), memory, isShown: false };
    this.#asks.set(key, open);
    // Another key could be that of another question in each call.
    const early = key === chosenKey(request) ? this.#early.get(key) : undefined;
    this.#early.delete(key);
    if (early !== undefined && isAnswer(request.method, early)) this.#take(key, open).answer("result", early);
  }

  withdraw(ask: ServerAsk): void {
    for (const [key, open] of this.#asks) if (open.ask === ask) this.#take(key, open);
  }

  /** Sends the server the valid answers to questions that the client was shown. @returns the kinds that are refused: the client no longer declares them. */
  answer(answers: ReadonlyMap<string, string>, declared: AskKinds): AskKinds {
    let refused: AskKinds = 0;
    for (const [key, open] of this.#asks) {
      const text = open.isShown ? answers.get(key) : undefined;
      if (text !== undefined && isAnswer(open.ask.request.method, text)) this.#take(key, open).answer("result", text);
      else if (!isSubset(open.kinds, declared)) {
        refused |= open.kinds;
        refuse(this.#take(key, open), "The client no longer declares this capability");
      }
    }
    return refused;
  }

  refuse(reason: string): void {
    for (const [key, open] of this.#asks) refuse(this.#take(key, open), reason);
  }

  /** Answers in place of a client that has not come back. */
  expire(): void {
    for (const [key, open] of this.#asks) {
      const ask = this.#take(key, open);
      // An elicitation can be cancelled, a sampling cannot.
      if (ask.request.method === AskMethod.elicitation) ask.answer("result", '{"action":"cancel"}');
      else ask.answer("error", '{"code":-1,"message":"The client did not answer in time"}');
    }
  }

  showProgress(): void {
    for (const { ask } of this.#asks.values()) ask.showProgress();
  }

  #take(key: string, { ask, memory }: OpenAsk): ServerAsk {
    memory.release();
    this.#asks.delete(key);
    return ask;
  }
}

function refuse(ask: ServerAsk, message: string): void {
  ask.answer("error", JSON.stringify({ code: JsonRpcErrorCode.InvalidRequest, message }));
}

/** Returns a text that is the same only for requests with the same method, name and arguments. */
export function bindingOf({ method, text, outline }: RequestMessage): string {
  const spans = [Slot.toolName, Slot.uri, Slot.arguments].map((slot) => outline.span(slot));
  const parts = spans.map((span) => span && text.slice(span.start, span.end));
  return createHash("sha256")
    .update(JSON.stringify([method, ...parts]))
    .digest("base64");
}
