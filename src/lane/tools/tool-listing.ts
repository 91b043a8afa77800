import { findElements, findMembers } from "../../json/find.ts";
import { estimatedBytes, MAX_VALUE_BYTES } from "../../json/value-size.ts";
import { readValue } from "../../json/values.ts";
import { isJsonObject, type JsonObject } from "../../protocol/message.ts";
import type { Log } from "../../observability/log.ts";
import type { Defects } from "../../observability/defects.ts";
import { RateLimit } from "../../timing/rate-limit.ts";

/** A server may have any number of tools, or return pages without end. */
const MAX_PAGES = 100;
const MAX_TOOLS = 10_000;
/** The rate of listings. A server may report a change of its tools after every listing. A burst may have the same number. */
const LISTINGS_PER_MINUTE = 60;
/** The maximum number of restarts of a listing whose tools have changed meanwhile. The next listing is used even if it is outdated. */
const MAX_RESTARTS = 3;

/** Requests one page. `onResult` is called once with the JSON text of the result; undefined if there is none. */
type AskForTools = (params: object, onResult: (resultText: string | undefined) => void) => void;

export interface ToolListingOptions {
  readonly ask: AskForTools;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /**
   * Called with all tools of the server, in its order; undefined if it did not list them. `areOutdated` is true if the server has reported
   * a change meanwhile. Another listing then follows.
   */
  readonly onListed: (tools: readonly JsonObject[] | undefined, areOutdated: boolean) => void;
}

/** Lists all tools of each generation, page by page, and again after each change. */
export class ToolListing {
  readonly #options: ToolListingOptions;
  /** True if the server may be sent requests. */
  #isOpen = false;
  #isListing = false;
  #isOutdated = false;
  #restarts = 0;
  #rate = new RateLimit(LISTINGS_PER_MINUTE);
  /** The timer of a listing that the rate limit delays. */
  #timer: NodeJS.Timeout | undefined;

  constructor(options: ToolListingOptions) {
    this.#options = options;
  }

  /** Starts the first listing of a generation. */
  open(): void {
    this.#isOpen = true;
    this.onChanged();
  }

  /** Starts a new listing, because the tools have changed. */
  onChanged(): void {
    if (!this.#isOpen) return;
    // One listing at a time, even if the server reports many changes.
    if (this.#isListing) this.#isOutdated = true;
    else this.#list();
  }

  /** Stops listing. Called when the server is lost. */
  close(): void {
    this.#isOpen = false;
    this.#isOutdated = false;
    this.#restarts = 0;
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

  /** @param bytes the memory of the former pages. */
  #askForPage(listed: JsonObject[], params: object, page: number, bytes: number): void {
    const { ask, log } = this.#options;
    ask(params, (resultText) => {
      const result = resultText === undefined ? undefined : readPage(resultText, MAX_VALUE_BYTES - bytes);
      if (result !== undefined && !this.#mustRestart) {
        listed.push(...result.tools);
        const { cursor } = result;
        // Some servers write an empty cursor for the last page, and would return the first page for it.
        const hasMore = typeof cursor === "string" && cursor !== "";
        if (hasMore && page < MAX_PAGES && listed.length < MAX_TOOLS)
          return this.#askForPage(listed, { cursor }, page + 1, bytes + result.bytes);
        if (hasMore || listed.length > MAX_TOOLS) {
          log.warn({ method: "tools/list", count: listed.length }, "tools/list has too many tools: the rest was ignored");
        }
      }
      this.#end(result !== undefined ? listed.slice(0, MAX_TOOLS) : undefined);
    });
  }

  /** True if the current listing must be restarted. */
  get #mustRestart(): boolean {
    return this.#isOutdated && this.#restarts < MAX_RESTARTS;
  }

  #end(tools: readonly JsonObject[] | undefined): void {
    this.#isListing = false;
    if (!this.#isOpen) return;
    if (this.#mustRestart) {
      this.#restarts++;
      return this.#list();
    }
    const areOutdated = this.#isOutdated;
    this.#isOutdated = false;
    if (!areOutdated) this.#restarts = 0;
    this.#options.onListed(tools, areOutdated);
    if (areOutdated) this.onChanged();
  }
}

interface ToolsPage {
  readonly tools: readonly JsonObject[];
  readonly cursor: unknown;
  /** The approximate memory of the page. */
  readonly bytes: number;
}

/** @returns undefined if the result is not a page of tools, or is too large to parse. Elements that are not objects are skipped. */
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
