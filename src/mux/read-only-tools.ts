import { isJsonObject } from "../jsonrpc/message.ts";
import type { Log } from "../observability/log.ts";

/** A server may have any number of tools, and go on with the next page for ever. */
const MAX_PAGES = 100;
const MAX_TOOLS = 10_000;
const MAX_NAME_LENGTH = 1000;

/** Asks for one page; `onResult` is called once, with undefined where there is no result. */
export type AskForTools = (params: object, onResult: (result: unknown) => void) => void;

/**
 * The tools that the server of a lane has marked as read-only. Asked of each server anew, and again when it says that its tools have
 * changed; until it has told all of them, none is taken for read-only.
 */
export class ReadOnlyTools {
  readonly #ask: AskForTools;
  readonly #log: Log;
  #names: ReadonlySet<string> = new Set();
  /** Whether the server that runs may be asked. */
  #isOpen = false;
  #isListing = false;
  #isOutdated = false;

  constructor(ask: AskForTools, log: Log) {
    this.#ask = ask;
    this.#log = log;
  }

  has(name: unknown): boolean {
    return typeof name === "string" && this.#names.has(name);
  }

  /** The server may be asked from now on. */
  onReady(): void {
    this.#isOpen = true;
    this.onChanged();
  }

  /** What was known is not known any more. */
  onChanged(): void {
    if (!this.#isOpen) return;
    this.#names = new Set();
    // One listing at a time, however often a server says that its tools have changed.
    if (this.#isListing) this.#isOutdated = true;
    else this.#list();
  }

  /** The server is gone. What it had told is kept for the calls it had; the next one is asked when it is ready. */
  onLost(): void {
    this.#isOpen = false;
    this.#isOutdated = false;
  }

  #list(): void {
    this.#isListing = true;
    this.#askForPage(new Map(), {}, 1);
  }

  #askForPage(listed: Map<string, boolean>, params: object, page: number): void {
    this.#ask(params, (result) => {
      const cursor = isJsonObject(result) ? addTools(listed, result) : undefined;
      if (isJsonObject(result) && !this.#isOutdated) {
        const hasMore = typeof cursor === "string";
        if (hasMore && page < MAX_PAGES && listed.size < MAX_TOOLS) return this.#askForPage(listed, { cursor }, page + 1);
        if (hasMore || listed.size >= MAX_TOOLS)
          this.#log.warn({ method: "tools/list", count: listed.size }, "not all tools were looked at: there are too many");
        this.#names = new Set(listed.keys().filter((name) => listed.get(name) === true));
      }
      this.#isListing = false;
      if (!this.#isOutdated) return;
      this.#isOutdated = false;
      this.#list();
    });
  }
}

/** @returns the cursor of the next page. */
function addTools(listed: Map<string, boolean>, { tools, nextCursor }: Readonly<Record<string, unknown>>): unknown {
  for (const tool of Array.isArray(tools) ? (tools as unknown[]) : []) {
    if (!isJsonObject(tool) || typeof tool["name"] !== "string" || tool["name"].length > MAX_NAME_LENGTH) continue;
    if (listed.size >= MAX_TOOLS) break;
    // Of two tools with one name, nobody knows which one is called.
    listed.set(tool["name"], isReadOnly(tool["annotations"]) && listed.get(tool["name"]) !== false);
  }
  return nextCursor;
}

/** By the protocol's own annotation (MCP 2025-11-25, schema, ToolAnnotations) or that of a pod; where they differ, it is not. */
function isReadOnly(annotations: unknown): boolean {
  if (!isJsonObject(annotations)) return false;
  const marks = new Set([annotations["readOnlyHint"], annotations["readOnly"]]);
  return marks.has(true) && !marks.has(false);
}
