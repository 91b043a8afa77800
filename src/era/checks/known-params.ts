import type { IncomingHttpHeaders } from "node:http";
import type { SidecarError } from "../../errors.ts";
import type { JsonObject, RequestMessage } from "../../protocol/message.ts";
import { Slot } from "../../protocol/message.ts";
import { checkParamHeaders, headerParams } from "./param-headers.ts";

/** The listings that a call waits for at most. Another one is needed if the tools change during the first. */
const MAX_LISTINGS = 2;
/** A listing that fails after this time has delayed its calls. */
const LATE_MS = 1000;
/** The time without another listing after that. */
const RETRY_AFTER_MS = 30_000;
/** The least time between a listing and one that a wrong header asks for, at least some times as long as the listing took. */
const MIN_PAUSE_MS = 1000;
const PAUSE_LISTINGS = 10;

/** The parameters in headers of a lane's current tools. The tools are listed for the first call of a tool, and after each change. */
export class KnownParams {
  readonly #list: () => Promise<readonly JsonObject[] | undefined>;
  readonly #nowMs: () => number;
  #params: ReturnType<typeof headerParams> | undefined;
  #listing: Promise<boolean> | undefined;
  /** Counts the changes of the tools. */
  #version = 0;
  #listedVersion = -1;
  #retryAtMs = 0;
  /** The earliest time of a listing that a wrong header asks for. */
  #nextAtMs = 0;

  /** @param list lists all tools of the server. Never rejects. */
  constructor(list: () => Promise<readonly JsonObject[] | undefined>, nowMs: () => number) {
    this.#list = list;
    this.#nowMs = nowMs;
  }

  /** Must be called when the tools may have changed. */
  forget(): void {
    this.#version++;
  }

  /**
   * Checks the headers of a tool call. Before an error, the tools are listed again, unless this was done just now. A call is not checked if
   * they cannot be listed.
   *
   * @returns the error, if there is one. A promise, which never rejects, if the tools must be listed first.
   */
  check(request: RequestMessage, headers: IncomingHttpHeaders): SidecarError | undefined | Promise<SidecarError | undefined> {
    const problem = (): SidecarError | undefined => this.#problem(request, headers);
    if (this.#isCurrent) {
      const found = problem();
      // Calls without a problem do not wait for a listing that only another call needs.
      return found === undefined || this.#nowMs() < this.#nextAtMs ? found : this.#listOnce().then(problem);
    }
    if (this.#nowMs() < this.#retryAtMs) return undefined;
    return this.#listCurrent().then(problem);
  }

  get #isCurrent(): boolean {
    return this.#listedVersion === this.#version;
  }

  #problem(request: RequestMessage, headers: IncomingHttpHeaders): SidecarError | undefined {
    const params = this.#params?.get(request.outline.stringAt(Slot.toolName) ?? "");
    return params === undefined ? undefined : checkParamHeaders(request, headers, params);
  }

  async #listCurrent(): Promise<void> {
    for (let listings = 0; listings < MAX_LISTINGS && !this.#isCurrent; listings++) if (!(await this.#listOnce())) return;
  }

  /** Resolves with false if the tools could not be listed. */
  #listOnce(): Promise<boolean> {
    this.#listing ??= this.#listNow();
    return this.#listing;
  }

  async #listNow(): Promise<boolean> {
    const version = this.#version;
    const startMs = this.#nowMs();
    const tools = await this.#list().finally(() => (this.#listing = undefined));
    const endMs = this.#nowMs();
    this.#nextAtMs = endMs + Math.max(MIN_PAUSE_MS, PAUSE_LISTINGS * (endMs - startMs));
    if (tools !== undefined) {
      this.#params = headerParams(tools);
      this.#listedVersion = version;
      return true;
    }
    if (!this.#isCurrent) this.#params = undefined;
    if (endMs - startMs >= LATE_MS) this.#retryAtMs = endMs + RETRY_AFTER_MS;
    return false;
  }
}
