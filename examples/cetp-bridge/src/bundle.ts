import { parseJson } from "./json.ts";

/** The answer of a provider (CETP §2.3). */
export type Answer =
  /** The value of the data is undefined if they are not JSON, nested too deeply, or have too many values. */
  | { readonly status: "success"; readonly data: string; readonly value: unknown }
  | {
      readonly status: "error";
      readonly code: string;
      readonly message: string;
      readonly hint?: string | undefined;
      readonly intent?: string | undefined;
    };

/** Deeper values end JSON.stringify() with an error. */
export const MAX_DEPTH = 100;
/** More take so long to parse that calls to other apps would wait. */
const MAX_VALUES = 100_000;

/**
 * Reads what `content call` prints: `Result: Bundle[{status=success, data={…}}]`. Values are not escaped. A value may thus look like
 * further entries. But a Bundle prints its keys in the order of their hashes, which is: error_message, resolution_hint, authorize_intent,
 * status, data, error_code. So texts for people come first in an error, never in a success, and the data, which are JSON, end a success.
 * @returns undefined if it has no Bundle.
 */
export function readAnswer(output: string): Answer | undefined {
  const [, entries] = /^Result: Bundle\[\{(.*)\}\]\s*$/ms.exec(cutAfterBundle(output)) ?? [];
  if (entries === undefined) return undefined;
  if (/^error_message=|^status=error\b|(?:^|, )status=error, error_code=\w*$/.test(entries)) return readError(entries);
  const [, data] = /(?:^|, )status=success, data=(.*)$/s.exec(entries) ?? [];
  return data === undefined ? undefined : { status: "success", ...readData(data) };
}

function readError(entries: string): Answer {
  // From the right: what an error message imitates is to the left of the real entries.
  const [texts, code = ""] = splitAtLast(entries, "error_code=");
  const [inner] = splitAtLast(texts, "status=error");
  const [rest, intent] = splitAtLast(inner, "authorize_intent=");
  const [message, hint] = splitAtLast(rest, "resolution_hint=");
  return { status: "error", code: /^\w+/.exec(code)?.[0] ?? "", message: message.replace(/^error_message=/, ""), hint, intent };
}

/** Unknown entries may follow the data; consumers ignore them (CETP §2.5). The text is parsed once, and only if it is whole. */
function readData(text: string): { readonly data: string; readonly value: unknown } {
  const json = text.slice(0, endOfJson(text));
  const value = parseJson(json);
  return value === undefined ? { data: text, value } : { data: json, value };
}

/**
 * Returns where the entry ends: at the first comma and space outside of brackets and quotes. 0 if a bracket or a quote is open, or at a limit
 * of the value.
 */
function endOfJson(text: string): number {
  let depth = 0;
  let values = 1;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted) at += character === "\\" ? 1 : 0;
    else if (character === "{" || character === "[") depth += 1;
    else if (character === "}" || character === "]") depth -= 1;
    else if (depth === 0 && character === "," && text[at + 1] === " ") return at;
    // Each further value follows a comma or a bracket.
    if (!isQuoted && (character === "," || character === "{" || character === "[")) values += 1;
    if (depth > MAX_DEPTH || values > MAX_VALUES) return 0;
  }
  return depth === 0 && !isQuoted ? text.length : 0;
}

/** With an adb or a device without separate streams, messages of the device follow. */
function cutAfterBundle(output: string): string {
  const end = output.lastIndexOf("}]");
  const start = output.search(/^Result: Bundle\[\{/m);
  return start === -1 || end < start ? "" : output.slice(start, end + 2);
}

/** Returns the text before the last entry that begins so, and the rest of that entry, if there is one. */
function splitAtLast(text: string, entry: string): readonly [string, string?] {
  const at = text.lastIndexOf(`, ${entry}`);
  if (at !== -1) return [text.slice(0, at), text.slice(at + 2 + entry.length)];
  return text.startsWith(entry) ? ["", text.slice(entry.length)] : [text];
}
