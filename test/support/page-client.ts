import type { PageUpdate } from "../../src/http/page-update.ts";
import { EventStream } from "./event-stream.ts";
import type { RunningSidecar } from "./running-sidecar.ts";

/** The event stream of the page, and all that it has shown. Use with `using`. */
export class PageClient implements Disposable {
  readonly #stream: EventStream;
  readonly #updates: PageUpdate[] = [];

  private constructor(stream: EventStream) {
    this.#stream = stream;
  }

  static async open({ origin }: Pick<RunningSidecar, "origin">, headers: Readonly<Record<string, string>> = {}): Promise<PageClient> {
    return new PageClient(
      await EventStream.open(`${origin}/page/events`, { headers: { Accept: "text/event-stream", "Claw-Mcp-Stdio-Page": "1", ...headers } }),
    );
  }

  get status(): number {
    return this.#stream.status;
  }

  get headers(): EventStream["headers"] {
    return this.#stream.headers;
  }

  /** Returns the next update; undefined at the end of the stream. */
  async next(): Promise<PageUpdate | undefined> {
    const text = await this.#stream.nextText();
    if (text === undefined) return undefined;
    const update = JSON.parse(text) as PageUpdate;
    this.#updates.push(update);
    return update;
  }

  /** Reads until all updates so far, the earlier ones included, satisfy a condition. @throws at the end of the stream. */
  async until(isEnough: (seen: PageHistory) => boolean): Promise<PageHistory> {
    for (;;) {
      const seen = this.#history();
      if (seen !== undefined && isEnough(seen)) return seen;
      if ((await this.next()) === undefined) throw new Error("the stream of the page has ended");
    }
  }

  [Symbol.dispose](): void {
    this.#stream.close();
  }

  #history(): PageHistory | undefined {
    const last = this.#updates.at(-1);
    if (last === undefined) return undefined;
    return {
      state: last.state,
      seconds: this.#updates.flatMap(({ seconds }) => seconds),
      requests: this.#updates.flatMap(({ requests }) => requests),
      logLines: this.#updates.flatMap(({ logLines }) => logLines),
      generations: this.#updates.findLast(({ generations }) => generations !== undefined)?.generations ?? [],
    };
  }
}

export type PageHistory = PageUpdate & { readonly generations: NonNullable<PageUpdate["generations"]> };
