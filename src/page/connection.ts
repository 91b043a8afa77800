import { createParser } from "eventsource-parser";
import { useEffect, useState } from "preact/hooks";
import { HISTORY_LIMITS, type PageGeneration, type PageRequest, type PageState, type PageUpdate } from "../http/page-update.ts";
import { isJsonObject } from "../json/text.ts";
import { errorText } from "./format.ts";

/** The number of an entry stays the same, for the list it is shown in. */
export interface Numbered<Value> {
  readonly key: number;
  readonly value: Value;
}

export interface PageModel {
  readonly state: PageState;
  readonly seconds: PageUpdate["seconds"];
  /** Oldest first, as are the lines and generations. */
  readonly requests: readonly Numbered<PageRequest>[];
  readonly logLines: readonly Numbered<string>[];
  readonly generations: readonly PageGeneration[];
}

/** @param previous undefined at the first update of a connection, which replaces all that is kept. */
export function updatedModel(previous: PageModel | undefined, update: PageUpdate): PageModel {
  return {
    state: update.state,
    seconds: [...(previous?.seconds ?? []), ...update.seconds].slice(-HISTORY_LIMITS.seconds),
    requests: appended(previous?.requests ?? [], update.requests, HISTORY_LIMITS.requests),
    logLines: appended(previous?.logLines ?? [], update.logLines, HISTORY_LIMITS.logLines),
    generations: update.generations ?? previous?.generations ?? [],
  };
}

function appended<Value>(kept: readonly Numbered<Value>[], added: readonly Value[], maxLength: number): readonly Numbered<Value>[] {
  if (added.length === 0) return kept;
  const next = (kept.at(-1)?.key ?? -1) + 1;
  return [...kept, ...added.map((value, index) => ({ key: next + index, value }))].slice(-maxLength);
}

/** Relative to the page, whose path may have a prefix. */
const EVENTS_PATH = "page/events";
const PAGE_HEADER = { "Claw-Mcp-Stdio-Page": "1" };
/** The time until a page that is hidden, or has lost its connection, looks again. Some browsers make it longer for a hidden page. */
const PAUSE_MS = 1000;
/** An update arrives about each second. Without one for this long, the connection is dead. */
const SILENCE_MS = 15_000;
const UNAUTHORIZED = 401;
const REPLACED = "Too many pages of this sidecar are open: this one has stopped. Load it again to continue.";
/** A header can have no other characters. */
const TOKEN = /^[\x21-\x7e]+$/;

/**
 * Follows the sidecar's updates by `fetch`, because EventSource sends no headers. A hidden page has no stream: a browser has six connections to
 * an origin, and the sidecar has few streams.
 *
 * @param set changes the page. A stream that fails or ends is opened again, unless the token is missing or wrong, or other pages have replaced it.
 */
async function follow(token: string | undefined, set: (next: (former: Page) => Page) => void, end: AbortSignal): Promise<void> {
  for (; !end.aborted; await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))) {
    if (document.hidden) continue;
    const hidden = new AbortController();
    document.addEventListener("visibilitychange", () => hidden.abort(), { signal: hidden.signal });
    const failure = await readStream(token, AbortSignal.any([end, hidden.signal]), (update, isFirst) =>
      set(({ model }) => ({ connection: { kind: "live" }, model: updatedModel(isFirst ? undefined : model, update) })),
    );
    const isHidden = hidden.signal.aborted;
    hidden.abort();
    if (end.aborted || isHidden) continue;
    if (failure === "unauthorized")
      return set(() => ({ model: undefined, connection: { kind: "unauthorized", isWrong: token !== undefined } }));
    const reason = failure === REPLACED ? failure : `${failure} The page tries again.`;
    set(({ model }) => ({ model, connection: { kind: "lost", reason } }));
    // If it connected again, two pages could replace each other for ever.
    if (failure === REPLACED) return;
  }
}

/** @returns the reason of its end. */
async function readStream(
  token: string | undefined,
  end: AbortSignal,
  onUpdate: (update: PageUpdate, isFirst: boolean) => void,
): Promise<string> {
  if (token !== undefined && !TOKEN.test(token)) return "unauthorized";
  const silence = new AbortController();
  const restartTimer = (): ReturnType<typeof setTimeout> => setTimeout(() => silence.abort(), SILENCE_MS);
  let timer = restartTimer();
  try {
    const headers = { ...PAGE_HEADER, ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
    const response = await fetch(EVENTS_PATH, { headers, cache: "no-store", signal: AbortSignal.any([end, silence.signal]) });
    if (response.status === UNAUTHORIZED) return "unauthorized";
    if (!response.ok || response.body === null) return await messageOf(response);
    let isFirst = true;
    let reason = "The connection has ended.";
    const parser = createParser({
      onEvent: ({ event, data }) => {
        if (event === "replaced") reason = REPLACED;
        if (event !== "update") return;
        onUpdate(JSON.parse(data) as PageUpdate, isFirst);
        isFirst = false;
      },
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      clearTimeout(timer);
      timer = restartTimer();
      parser.feed(next.value);
    }
    return reason;
  } catch (error) {
    return silence.signal.aborted ? "No update has arrived for some time." : errorText(error);
  } finally {
    clearTimeout(timer);
  }
}

async function messageOf(response: Response): Promise<string> {
  const body: unknown = await response.json().catch(() => undefined);
  const error = isJsonObject(body) ? body["error"] : undefined;
  return isJsonObject(error) && typeof error["message"] === "string" ? error["message"] : `HTTP status ${response.status}`;
}

export type Connection =
  | { readonly kind: "connecting" | "live" }
  | { readonly kind: "lost"; readonly reason: string }
  /** A token is needed, or the given one is wrong. */
  | { readonly kind: "unauthorized"; readonly isWrong: boolean };

interface Page {
  readonly connection: Connection;
  readonly model: PageModel | undefined;
}

/** @param entry a new one begins a new connection. Its token is undefined before one is entered. */
export function usePage(entry: { readonly token: string | undefined }): Page {
  const [page, setPage] = useState<Page>({ connection: { kind: "connecting" }, model: undefined });
  useEffect(() => {
    // A second wrong token is announced too.
    setPage((former) =>
      former.connection.kind === "unauthorized" ? { ...former, connection: { kind: "unauthorized", isWrong: false } } : former,
    );
    const end = new AbortController();
    void follow(entry.token, setPage, end.signal);
    return () => end.abort();
  }, [entry]);
  return page;
}
