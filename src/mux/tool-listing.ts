import { findElements, findMembers } from "../json/find.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../json/value-size.ts";
import { readValue } from "../json/values.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";
import type { Defects } from "../defects.ts";
import { RateLimit } from "../rate-limit.ts";

/** A server may have any number of tools, and go on with the next page for ever. */
const MAX_PAGES = 100;
const MAX_TOOLS = 10_000;
/** A server may say that its tools have changed each time that it lists them. As many may follow each other at once. */
const LISTINGS_PER_MINUTE = 60;
/** How often a listing is begun anew since the tools have changed meanwhile. The next one is taken, or there would never be one. */
const MAX_NEW_BEGINNINGS = 3;

/** Asks for one page; `onResult` is called once with the JSON text of the result, undefined without one. */
type AskForTools = (params: object, onResult: (resultText: string | undefined) => void) => void;

export interface ToolListingOptions {
  readonly ask: AskForTools;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  /** Of a clock that does not go back. */
  readonly nowMs: () => number;
  /**
   * All tools of the server that runs, in its order; undefined where it did not tell them. Where they are outdated, it has said meanwhile
   * that they have changed, and is asked again.
   */
  readonly onListed: (tools: readonly JsonObject[] | undefined, areOutdated: boolean) => void;
}

/** Asks a server for all its tools, page by page: each server anew, and again when it says that they have changed. */
export class ToolListing {
  readonly #options: ToolListingOptions;
  /** Whether the server that runs may be asked. */
  #isOpen = false;
  #isListing = false;
  #isOutdated = false;
  #newBeginnings = 0;
  #rate = new RateLimit(LISTINGS_PER_MINUTE);
  /** Of a listing that has to wait. */
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ToolListingOptions) {
    this.#options = options;
  }

  /** The server may be asked from now on. */
  open(): void {
    this.#isOpen = true;
    this.onChanged();
  }

  /** What was listed is not true any more. */
  onChanged(): void {
    if (!this.#isOpen) return;
    // One listing at a time, however often a server says that its tools have changed.
    if (this.#isListing) this.#isOutdated = true;
    else this.#list();
  }

  /** The server is gone. */
  close(): void {
    this.#isOpen = false;
    this.#isOutdated = false;
    this.#newBeginnings = 0;
    this.#rate = new RateLimit(LISTINGS_PER_MINUTE);
    if (this.#timer === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isListing = false;
  }

  #list(): void {
    this.#isListing = true;
    const waitMs = this.#rate.take(this.#options.nowMs());
    if (waitMs !== undefined) {
      const list = (): void =>
        this.#options.defects.guard(
          "tool listing",
          () => this.#list(),
          () => this.#end(undefined),
        );
      this.#timer = setTimeout(list, Math.ceil(waitMs)).unref();
      return;
    }
    this.#timer = undefined;
    this.#isOutdated = false;
    this.#askForPage([], {}, 1, 0);
  }

  /** @param bytes what the pages before take in memory. */
  #askForPage(listed: JsonObject[], params: object, page: number, bytes: number): void {
    const { ask, log } = this.#options;
    ask(params, (resultText) => {
      const result = resultText === undefined ? undefined : readPage(resultText, MAX_VALUE_BYTES - bytes);
      if (result !== undefined && !this.#beginsAnew) {
        listed.push(...result.tools);
        const { cursor } = result;
        // Servers in languages without absent members write an empty one, and would begin anew with it.
        const hasMore = typeof cursor === "string" && cursor !== "";
        if (hasMore && page < MAX_PAGES && listed.length < MAX_TOOLS)
          return this.#askForPage(listed, { cursor }, page + 1, bytes + result.bytes);
        if (hasMore || listed.length > MAX_TOOLS) {
          log.warn({ method: "tools/list", count: listed.length }, "not all tools were looked at: there are too many");
        }
      }
      this.#end(result !== undefined ? listed.slice(0, MAX_TOOLS) : undefined);
    });
  }

  /** Whether what is being listed is of no use. */
  get #beginsAnew(): boolean {
    return this.#isOutdated && this.#newBeginnings < MAX_NEW_BEGINNINGS;
  }

  #end(tools: readonly JsonObject[] | undefined): void {
    this.#isListing = false;
    if (!this.#isOpen) return;
    if (this.#beginsAnew) {
      this.#newBeginnings++;
      return this.#list();
    }
    const areOutdated = this.#isOutdated;
    this.#isOutdated = false;
    if (!areOutdated) this.#newBeginnings = 0;
    this.#options.onListed(tools, areOutdated);
    if (areOutdated) this.onChanged();
  }
}

interface ToolsPage {
  readonly tools: readonly JsonObject[];
  readonly cursor: unknown;
  /** About what it takes in memory. */
  readonly bytes: number;
}

/** @returns undefined for a result that is not a page of tools, or has too many values to be built. What is not an object in it is passed over. */
function readPage(resultText: string, maxBytes: number): ToolsPage | undefined {
  if (!resultText.startsWith("{")) return undefined;
  const [list, next] = findMembers(resultText, 0, ["tools", "nextCursor"]).spans;
  if (list === undefined || resultText.charAt(list.start) !== "[") return undefined;
  // A character may take two bytes.
  const bytes = estimatedBytes(resultText) + 2 * resultText.length;
  if (bytes > maxBytes) return undefined;
  const tools = findElements(resultText, list.start, MAX_TOOLS + 1).map((span) => readValue(resultText, span));
  return { tools: tools.filter(isJsonObject), cursor: next === undefined ? undefined : readValue(resultText, next), bytes };
}
