import { createHash } from "node:crypto";
import type { JsonObject } from "../manifest.ts";
import type { Format } from "./format.ts";

const MAX_TURNS = 1000;
/** UTF-16 units of JSON. */
const MAX_LENGTH = 16 * 1024 * 1024;

/** The rounds of turns that cannot be told apart: none are restored. */
const AMBIGUOUS = "[]";

/**
 * The hidden rounds of former turns of one agent. A turn is known by its user, if the runner names one, and by all messages of its conversation that the
 * runner has sent or received. If two conversations are the same word for word, none gets the rounds of the other. System prompts do not
 * count, because runners put the time into them.
 */
export class HiddenRounds {
  /** The JSON of hidden messages. The least recently used comes first. */
  readonly #turns = new Map<string, string>();
  #length = 0;

  /** Keeps the rounds that led to an answer. @param owner the user. @param visible the messages of the runner's request. */
  keep(owner: string, format: Format, visible: readonly JsonObject[], answer: JsonObject, hidden: readonly JsonObject[]): void {
    let key = owner;
    for (const message of [...visible, answer]) key = next(key, format, message);
    // A turn without hidden rounds is kept too: another one that is the same must not lend it any.
    const known = this.#turns.get(key);
    const text = JSON.stringify(hidden);
    this.#set(key, (known === undefined || known === text) && text.length <= MAX_LENGTH ? text : AMBIGUOUS);
  }

  /** Returns the conversation as the model has seen it: hidden rounds come before the answers to which they led. */
  restore(owner: string, format: Format, visible: readonly JsonObject[]): JsonObject[] {
    let key = owner;
    return visible.flatMap((message) => {
      key = next(key, format, message);
      const text = message["role"] === "assistant" ? this.#turns.get(key) : undefined;
      if (text === undefined) return [message];
      this.#set(key, text);
      return [...(JSON.parse(text) as JsonObject[]), message];
    });
  }

  #set(key: string, text: string): void {
    this.#delete(key);
    this.#turns.set(key, text);
    this.#length += text.length;
    for (const [oldest] of this.#turns) {
      if (this.#turns.size <= MAX_TURNS && this.#length <= MAX_LENGTH) break;
      this.#delete(oldest);
    }
  }

  #delete(key: string): void {
    this.#length -= this.#turns.get(key)?.length ?? 0;
    this.#turns.delete(key);
  }
}

function next(key: string, format: Format, message: JsonObject): string {
  if (message["role"] === "system" || message["role"] === "developer") return key;
  return createHash("sha256").update(key).update("\0").update(format.identity(message)).digest("base64url");
}
