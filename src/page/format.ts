import { escapeInvisible } from "../json/text.ts";

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const MIB = 1024 * 1024;

/** With the day if it is not today. @param at in ISO 8601, or in milliseconds since the epoch. */
export function timeText(at: string | number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return "unknown";
  const time = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString("en-CA")} ${time}`;
}

export function durationText(ms: number): string {
  if (ms < SECOND_MS) return `${Math.round(ms)} ms`;
  if (ms < 10 * SECOND_MS) return `${(ms / SECOND_MS).toFixed(1)} s`;
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min ${Math.floor((ms % MINUTE_MS) / SECOND_MS)} s`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)} h ${Math.floor((ms % HOUR_MS) / MINUTE_MS)} min`;
  return `${Math.floor(ms / DAY_MS)} d ${Math.floor((ms % DAY_MS) / HOUR_MS)} h`;
}

export function bytesText(bytes: number): string {
  if (bytes < 1024) return `${bytes} bytes`;
  return bytes < MIB ? `${(bytes / 1024).toFixed(0)} KiB` : `${(bytes / MIB).toFixed(1)} MiB`;
}

export function countText(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** With the same prefix as that of the page, if a proxy removes one. */
export function endpointUrl(endpointPath: string): URL {
  return new URL(`.${endpointPath}`, location.href);
}

/** Escapes invisible characters, such as `\u202e`, but not line feeds and tabs. */
export function visibleLines(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .split(/([\n\t])/)
    .map((part, index) => (index % 2 === 0 ? escapeInvisible(part) : part))
    .join("");
}

/** The message of a failed `fetch` is the browser's. */
export function errorText(error: unknown): string {
  if (error instanceof TypeError) return "The sidecar does not answer.";
  return error instanceof Error ? error.message : String(error);
}
