import { parseJson } from "./json.ts";

/** The answer of a provider (CETP §2.3). */
export type Answer =
  | { readonly status: "success"; readonly data: string }
  | {
      readonly status: "error";
      readonly code: string;
      readonly message: string;
      readonly hint?: string | undefined;
      readonly intent?: string | undefined;
    };

/** JSON.parse runs at most this often to find the end of the data. */
const MAX_ATTEMPTS = 20;

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
  return data === undefined ? undefined : { status: "success", data: withoutFurtherEntries(data) };
}

function readError(entries: string): Answer {
  // From the right: what an error message imitates is to the left of the real entries.
  const [texts = entries, code = ""] = halvesAtLast(entries, /(?:^|, )error_code=/g);
  const [inner] = halvesAtLast(texts, /(?:^|, )status=error/g);
  const [rest = "", intent] = halvesAtLast(inner ?? "", /(?:^|, )authorize_intent=/g);
  const [message = "", hint] = halvesAtLast(rest, /(?:^|, )resolution_hint=/g);
  return { status: "error", code: /^\w+/.exec(code)?.[0] ?? "", message: message.replace(/^error_message=/, ""), hint, intent };
}

/** Unknown entries may follow the data; consumers ignore them (CETP §2.5). */
function withoutFurtherEntries(text: string): string {
  let end = text.length;
  for (let attempt = 0; attempt < MAX_ATTEMPTS && end > 0; attempt++) {
    if (parseJson(text.slice(0, end)) !== undefined) return text.slice(0, end);
    end = text.lastIndexOf(", ", end - 1);
  }
  return text;
}

/** With an adb or a device without separate streams, messages of the device follow. */
function cutAfterBundle(output: string): string {
  const end = output.lastIndexOf("}]");
  const start = output.search(/^Result: Bundle\[\{/m);
  return start === -1 || end < start ? "" : output.slice(start, end + 2);
}

function halvesAtLast(text: string, at: RegExp): readonly [string?, string?] {
  const match = [...text.matchAll(at)].at(-1);
  return match === undefined ? [text] : [text.slice(0, match.index), text.slice(match.index + match[0].length)];
}
