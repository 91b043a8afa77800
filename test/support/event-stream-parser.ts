import { createParser } from "eventsource-parser";

/** An event of a stream with the fields that it has, or a comment. */
export interface StreamBlock {
  readonly id?: string | undefined;
  readonly event?: string | undefined;
  readonly retry?: number;
  readonly data?: string;
  readonly comment?: string;
}

/**
 * Reads server-sent events with `eventsource-parser`, but strictly. Broken UTF-8, unknown fields and an incomplete last event are errors,
 * since the sidecar has no reason to send them.
 */
export class EventStreamParser {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true });
  readonly #parser;
  readonly #blocks: StreamBlock[] = [];
  /** The fields of the event that is being read. */
  #retry: { retry?: number } = {};
  #lastTwo = "";

  constructor() {
    this.#parser = createParser({
      onEvent: ({ id, event, data }) => {
        this.#blocks.push({ ...(id === undefined ? {} : { id }), ...(event === undefined ? {} : { event }), ...this.#retry, data });
        this.#retry = {};
      },
      onRetry: (retry) => (this.#retry = { retry }),
      onComment: (comment) => this.#blocks.push({ comment }),
      onError: (error) => {
        throw error;
      },
    });
  }

  /** @returns the blocks that are complete now. */
  push(chunk: Uint8Array): StreamBlock[] {
    const text = this.#decoder.decode(chunk, { stream: true });
    this.#lastTwo = (this.#lastTwo + text.slice(-2)).slice(-2);
    this.#parser.feed(text);
    return this.#blocks.splice(0);
  }

  /** @throws if the stream ended within an event. */
  end(): void {
    const isComplete = this.#lastTwo === "" || this.#lastTwo === "\n\n";
    if (this.#decoder.decode() !== "" || !isComplete) throw new Error("the stream ended within an event");
  }
}

export function parseEventStream(body: string): StreamBlock[] {
  const parser = new EventStreamParser();
  const blocks = parser.push(Buffer.from(body));
  parser.end();
  return blocks;
}
