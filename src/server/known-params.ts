import type { IncomingHttpHeaders } from "node:http";
import type { Context } from "../context.ts";
import { findPath } from "../json/read.ts";
import { readValue } from "../json/value.ts";
import type { SidecarError } from "../mcp/errors.ts";
import { isJsonObject, type JsonObject, type RequestMessage, Slot } from "../mcp/message.ts";
import { checkHeader } from "./request-check.ts";
import type { ServerTools } from "./tools.ts";

const HEADER_KEY = "x-mcp-header";
/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const MAX_DEPTH = 16;

interface HeaderParam {
  readonly path: readonly string[];
  /** In lower case, as in Node. */
  readonly header: string;
}

/** A name that several tools have is left out. */
function headerParams(tools: readonly JsonObject[]): ReadonlyMap<string, readonly HeaderParam[]> {
  const found = new Map<string, readonly HeaderParam[]>();
  for (const [name, same] of Map.groupBy(tools, (tool) => tool["name"])) {
    const [tool] = same;
    if (typeof name !== "string" || tool === undefined || same.length > 1) continue;
    const params = [...paramsOf(tool["inputSchema"], [])];
    if (params.length > 0) found.set(name, params);
  }
  return found;
}

/** A header must equal the argument that it repeats (MCP 2026-07-28, basic/transports, custom headers). */
function checkParamHeaders(
  { text, outline }: RequestMessage,
  headers: IncomingHttpHeaders,
  params: readonly HeaderParam[],
): SidecarError | undefined {
  for (const { path, header } of params) {
    const span = findPath(text, outline.start(Slot.arguments), path);
    const value = span === undefined ? undefined : readValue(text, span);
    if (typeof value !== "string" && typeof value !== "boolean" && typeof value !== "number") continue;
    const mismatch = checkHeader(headers[header], header, value, `the argument ${path.join(".")}`);
    if (mismatch !== undefined) return mismatch;
  }
  return undefined;
}

function* paramsOf(schema: unknown, path: readonly string[]): Generator<HeaderParam> {
  if (!isJsonObject(schema) || path.length > MAX_DEPTH) return;
  const name = schema[HEADER_KEY];
  if (typeof name === "string" && TOKEN.test(name) && path.length > 0) yield { path, header: `mcp-param-${name.toLowerCase()}` };
  const { properties } = schema;
  if (!isJsonObject(properties)) return;
  for (const [key, child] of Object.entries(properties)) yield* paramsOf(child, [...path, key]);
}

const LIST_TIMEOUT_MS = 10_000;
/** The part of REQUEST_TIMEOUT_MS for a listing. A call may wait for two, and still needs time for the server. */
const LIST_SHARE = 1 / 4;
/** A second listing is needed if the tools change during the first. */
const MAX_LISTINGS = 2;
const RETRY_AFTER_MS = 30_000;
/** A listing because of a wrong header comes after this pause, or after some times as long as the last one took. */
const MIN_PAUSE_MS = 1000;
const PAUSE_LISTINGS = 10;

/** The parameters of tools that headers repeat. They are listed for the first call of a tool, and after each change. */
export class KnownParams {
  readonly #context: Context;
  readonly #tools: Pick<ServerTools, "list" | "version">;
  readonly #visibleNames: ((tools: readonly JsonObject[]) => ReadonlySet<unknown>) | undefined;
  #params: ReturnType<typeof headerParams> | undefined;
  #listing: Promise<void> | undefined;
  #listedVersion = -1;
  #nextAtMs = 0;

  /** @param visibleNames undefined for all. A hidden tool is like an unknown one. */
  constructor(
    context: Context,
    tools: Pick<ServerTools, "list" | "version">,
    visibleNames?: (tools: readonly JsonObject[]) => ReadonlySet<unknown>,
  ) {
    this.#context = context;
    this.#tools = tools;
    this.#visibleNames = visibleNames;
  }

  /**
   * Checks the headers of a call. Before an error, the tools are listed again, unless this was done just now. Without a list, a call is not
   * checked.
   *
   * @returns a promise, which never rejects, if the tools must be listed first.
   */
  check(request: RequestMessage, headers: IncomingHttpHeaders): SidecarError | undefined | Promise<SidecarError | undefined> {
    const problem = (): SidecarError | undefined => {
      const params = this.#params?.get(request.outline.stringAt(Slot.toolName) ?? "");
      return params && checkParamHeaders(request, headers, params);
    };
    if (!this.#isCurrent) return this.#listCurrent().then(problem);
    const found = problem();
    // Calls without a problem do not wait for a listing that only another call needs.
    return found === undefined || !this.#mayList ? found : this.#listOnce().then(problem);
  }

  /** A listing that has failed counts for a while, so that it does not delay each call. */
  get #isCurrent(): boolean {
    return this.#listedVersion === this.#tools.version && (this.#params !== undefined || !this.#mayList);
  }

  get #mayList(): boolean {
    return this.#context.nowMs() >= this.#nextAtMs;
  }

  async #listCurrent(): Promise<void> {
    for (let listings = 0; listings < MAX_LISTINGS && !this.#isCurrent; listings++) await this.#listOnce();
  }

  #listOnce(): Promise<void> {
    return (this.#listing ??= this.#listNow());
  }

  async #listNow(): Promise<void> {
    const { config, nowMs } = this.#context;
    const { version } = this.#tools;
    const startMs = nowMs();
    const timeoutMs = Math.min(LIST_TIMEOUT_MS, config.requestTimeoutMs * LIST_SHARE);
    const { tools } = await this.#tools.list(timeoutMs).finally(() => (this.#listing = undefined));
    const endMs = nowMs();
    const visible = tools && this.#visibleNames?.(tools);
    const params = tools && headerParams(visible === undefined ? tools : tools.filter(({ name }) => visible.has(name)));
    // A list that cannot be read again stays in effect.
    this.#params = params ?? (this.#listedVersion === version ? this.#params : undefined);
    this.#listedVersion = version;
    this.#nextAtMs = endMs + (params === undefined ? RETRY_AFTER_MS : Math.max(MIN_PAUSE_MS, PAUSE_LISTINGS * (endMs - startMs)));
  }
}
