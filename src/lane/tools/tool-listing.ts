import { MAX_VALUE_BYTES } from "../../json/value-size.ts";
import type { OnInternalResult } from "../internal/internal-exchange.ts";
import type { SidecarErrorCode } from "../../errors.ts";
import type { JsonObject } from "../../protocol/message.ts";
import type { Log } from "../../observability/log.ts";
import type { Defects } from "../../observability/defects.ts";
import { RateLimit } from "../../timing/rate-limit.ts";
import { readToolPages, type ToolList, type ToolListRules } from "./tool-pages.ts";

/** Clients of a server with a few malformed tools still get the others. */
const RULES: ToolListRules = { maxPages: 100, maxValueBytes: MAX_VALUE_BYTES, isStrict: false };
/** The rate of listings. A server may report a change of its tools after every listing. A burst may have the same number. */
const LISTINGS_PER_MINUTE = 60;
/** The maximum number of restarts of a listing whose tools have changed meanwhile. The next listing is used even if it is outdated. */
const MAX_RESTARTS = 3;

/** Requests one page. */
type AskForTools = (params: object, onResult: OnInternalResult) => void;

/** Called with all tools; undefined with the problem, and the code of the sidecar's error, if it is one. */
type OnTools = (tools: ToolList["tools"], problem?: string, code?: SidecarErrorCode) => void;

/** Requests all pages, one after another. `onListed` is called once: with all tools, or with the reason why there are none. */
export function listTools(ask: AskForTools, log: Log, onListed: OnTools): void {
  const pages = readToolPages(RULES);
  const goOn = ({ done, value }: IteratorResult<JsonObject, ToolList>): void => {
    if (done !== true)
      return ask(value, (text, ...failure) => (text === undefined ? onListed(undefined, ...failure) : goOn(pages.next(text))));
    const { tools, problem } = value;
    if (tools !== undefined && problem !== undefined)
      log.warn({ method: "tools/list", count: tools.length }, "tools/list has too many tools: the rest was ignored");
    onListed(tools, problem);
  };
  goOn(pages.next());
}

export interface ToolListingOptions {
  readonly ask: AskForTools;
  readonly defects: Pick<Defects, "guard">;
  readonly log: Log;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /**
   * Called with all tools of the server, in its order; undefined with the problem if it did not list them. `areOutdated` is true if the
   * server has reported a change meanwhile. Another listing then follows.
   */
  readonly onListed: (tools: ToolList["tools"], areOutdated: boolean, problem?: string, code?: SidecarErrorCode) => void;
}

/** Lists all tools of each generation, page by page, and again after each change. */
export class ToolListing {
  readonly #options: ToolListingOptions;
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

  /** True if the server may be sent requests. */
  get isOpen(): boolean {
    return this.#isOpen;
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
          () => this.#end(undefined, "the sidecar could not ask for them"),
        );
      this.#timer = setTimeout(list, Math.ceil(waitMs)).unref();
      return;
    }
    this.#timer = undefined;
    this.#isOutdated = false;
    const { ask, log } = this.#options;
    // The rest of a listing that will be restarted is not requested.
    const askForPage: AskForTools = (params, onResult) =>
      ask(params, (text, ...failure) => onResult(this.#mustRestart ? undefined : text, ...failure));
    listTools(askForPage, log, (...listed) => this.#end(...listed));
  }

  /** True if the current listing must be restarted. */
  get #mustRestart(): boolean {
    return this.#isOutdated && this.#restarts < MAX_RESTARTS;
  }

  #end(tools: ToolList["tools"], problem?: string, code?: SidecarErrorCode): void {
    this.#isListing = false;
    if (!this.#isOpen) return;
    if (this.#mustRestart) {
      this.#restarts++;
      return this.#list();
    }
    const areOutdated = this.#isOutdated;
    this.#isOutdated = false;
    if (!areOutdated) this.#restarts = 0;
    this.#options.onListed(tools, areOutdated, problem, code);
    if (areOutdated) this.onChanged();
  }
}
