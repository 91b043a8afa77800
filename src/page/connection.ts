import { createParser } from "eventsource-parser";
import { useEffect, useState } from "preact/hooks";
import {
  HISTORY_LIMITS,
  type PageGeneration,
  type PageRequest,
  type PageSecond,
  type PageState,
  type PageUpdate,
} from "../http/page-update.ts";
import { errorText } from "./format.ts";

/** An entry with a number that stays the same, for the list it is shown in. */
export interface Numbered<Value> {
  readonly key: number;
  readonly value: Value;
}

/** The state and the history that the sidecar has sent. */
export interface PageModel {
  readonly state: PageState;
  readonly seconds: readonly PageSecond[];
  /** Oldest first, as are the lines and generations. */
  readonly requests: readonly Numbered<PageRequest>[];
  readonly logLines: readonly Numbered<string>[];
  readonly generations: readonly PageGeneration[];
}

/** Returns the model after an update. The first update of a connection replaces all that is kept: `previous` is undefined then. */
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
const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 10_000;
/** An update arrives about each second. Without one for this long, the connection is dead. */
const SILENCE_MS = 15_000;
const UNAUTHORIZED = 401;
/** The reason if too many pages are open. */
const REPLACED = "Too many pages of this sidecar are open: this one has stopped. Load it again to continue.";
/** A header can have no other characters. */
const TOKEN = /^[\x21-\x7e]+$/;

/**
 * Follows the sidecar's updates by `fetch`, because EventSource sends no headers. A hidden page has no stream: a browser has six connections to
 * an origin, and the sidecar has few streams.
 *
 * @param set changes the page. A stream that fails or ends is opened again, unless the token is missing or wrong.
 */
async function follow(token: string | undefined, set: (next: (former: Page) => Page) => void, end: AbortSignal): Promise<void> {
  let pauseMs = MIN_PAUSE_MS;
  for (;;) {
    if (!isVisible()) await until(isVisible, end);
    if (end.aborted) return;
    const hidden = new AbortController();
    const onChange = (): void => hidden.abort();
    document.addEventListener("visibilitychange", onChange);
    const failure = await readStream(token, AbortSignal.any([end, hidden.signal]), (update, isFirst) => {
      pauseMs = MIN_PAUSE_MS;
      set(({ model }) => ({ connection: { kind: "live" }, model: updatedModel(isFirst ? undefined : model, update) }));
    });
    document.removeEventListener("visibilitychange", onChange);
    if (end.aborted) return;
    if (hidden.signal.aborted) continue;
    if (failure === "unauthorized") {
      set(() => ({ model: undefined, connection: { kind: "unauthorized", isWrong: token !== undefined } }));
      return;
    }
    const reason = failure === REPLACED ? failure : `${failure} The page tries again.`;
    set(({ model }) => ({ model, connection: { kind: "lost", reason } }));
    // If it connected at once, two pages could replace each other for ever.
    if (failure === REPLACED) await until(() => !isVisible(), end);
    // Not longer than until the reader is back.
    else await until(isVisible, end, pauseMs);
    pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS);
  }
}

/** Reads one stream, and returns the reason of its end. */
async function readStream(
  token: string | undefined,
  end: AbortSignal,
  onUpdate: (update: PageUpdate, isFirst: boolean) => void,
): Promise<string> {
  const silence = new AbortController();
  const restartTimer = (timer?: ReturnType<typeof setTimeout>): ReturnType<typeof setTimeout> => {
    clearTimeout(timer);
    return setTimeout(() => silence.abort(), SILENCE_MS);
  };
  if (token !== undefined && !TOKEN.test(token)) return "unauthorized";
  let timer = restartTimer();
  try {
    const headers = { ...PAGE_HEADER, ...(token !== undefined && { Authorization: `Bearer ${token}` }) };
    const response = await fetch(EVENTS_PATH, {
      headers,
      cache: "no-store",
      signal: AbortSignal.any([end, silence.signal]),
    });
    if (response.status === UNAUTHORIZED) return "unauthorized";
    if (!response.ok || response.body === null) return await messageOf(response);
    let isFirst = true;
    let isReplaced = false;
    const parser = createParser({
      onEvent: ({ event, data }) => {
        if (event === "replaced") isReplaced = true;
        if (event !== "update") return;
        onUpdate(JSON.parse(data) as PageUpdate, isFirst);
        isFirst = false;
      },
    });
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return isReplaced ? REPLACED : "The connection has ended.";
      timer = restartTimer(timer);
      parser.feed(value);
    }
  } catch (error) {
    return silence.signal.aborted ? "No update has arrived for some time." : errorText(error);
  } finally {
    clearTimeout(timer);
  }
}

async function messageOf(response: Response): Promise<string> {
  const body = (await response.json().catch(() => undefined)) as { readonly error?: { readonly message?: unknown } } | undefined;
  const message = body?.error?.message;
  return typeof message === "string" ? message : `HTTP status ${response.status}`;
}

function isVisible(): boolean {
  return document.visibilityState !== "hidden";
}

/** Resolves at a change of the page or of the network if the condition holds then; else after a time, if there is one, or at the end. */
function until(holds: () => boolean, end: AbortSignal, ms?: number): Promise<void> {
  return new Promise((resolve) => {
    const over = new AbortController();
    const { signal } = over;
    const finish = (): void => {
      clearTimeout(timer);
      over.abort();
      resolve();
    };
    const look = (): void => {
      if (holds()) finish();
    };
    const timer = ms === undefined ? undefined : setTimeout(finish, ms);
    document.addEventListener("visibilitychange", look, { signal });
    window.addEventListener("online", look, { signal });
    end.addEventListener("abort", finish, { signal });
    if (end.aborted) finish();
  });
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

/** Follows the sidecar's state with a token, which is undefined before one is entered. A new entry begins a new connection. */
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
