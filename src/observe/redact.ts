import { replaceStrings } from "../json/edit.ts";
import { decodeString, plainText } from "../json/text.ts";

/** Names of variables, flags and headers. */
export const CREDENTIAL_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE/i;
/** Shorter values are not masked, because they could be ordinary words. */
const MIN_SECRET_LENGTH = 8;
/** Ends a text that was shortened, in JSON too. */
const CUT = /…(?="|$)/g;
/** A longer secret may show if a text is cut within it. In UTF-16 units. */
export const MAX_SECRET_LENGTH = 4096;
export const MASK = "***";

export type Redact = (text: string) => string;

/** Twice, because a secret may contain an escape sequence or be divided by one. */
export function maskedPlainText(text: string, redact: Redact): string {
  return redact(plainText(redact(text)));
}

export class Secrets {
  readonly #texts = new Set<string>();
  #pattern: RegExp | undefined;

  constructor(environment: Readonly<Record<string, string | undefined>>) {
    this.add(Object.entries(environment).flatMap(([name, value]) => (CREDENTIAL_NAME.test(name) ? [value ?? ""] : [])));
  }

  add(values: readonly string[]): void {
    for (const value of values) {
      // Each line of a private key is a secret, because logs are split into lines.
      for (const line of value.split(/\r?\n/)) {
        const secret = line.trim();
        if (secret.length >= MIN_SECRET_LENGTH) for (const spelled of spellings(secret)) this.#texts.add(spelled);
      }
    }
    // The longest comes first, so that a secret that contains another one is masked completely.
    const longestFirst = [...this.#texts].toSorted((a, b) => b.length - a.length);
    // Node 22 does not have `RegExp.escape`.
    const patterns = longestFirst.map((text) => text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
    this.#pattern = patterns.length === 0 ? undefined : new RegExp(patterns.join("|"), "g");
  }

  /** Also those that are escaped in JSON or in a URL. */
  readonly redact: Redact = (text) => {
    if (this.#pattern === undefined) return text;
    const masked = text.replace(this.#pattern, MASK);
    return masked.includes("…") ? this.#redactCut(masked) : masked;
  };

  /** Shortened texts may end within a secret. */
  #redactCut(text: string): string {
    const parts: string[] = [];
    let start = 0;
    for (const { index } of text.matchAll(CUT)) {
      const length = this.#cutSecretLength(text.slice(Math.max(start, index - MAX_SECRET_LENGTH), index));
      parts.push(text.slice(start, index - length), length === 0 ? "" : MASK);
      start = index;
    }
    return `${parts.join("")}${text.slice(start)}`;
  }

  /** Finds the longest beginning of a secret at the end of a text. */
  #cutSecretLength(text: string): number {
    let longest = 0;
    for (const secret of this.#texts) {
      const first = secret.slice(0, MIN_SECRET_LENGTH);
      for (let at = text.indexOf(first); at !== -1; at = text.indexOf(first, at + 1)) {
        if (secret.startsWith(text.slice(at))) longest = Math.max(longest, text.length - at);
      }
    }
    return longest;
  }

  /** For `JSON.stringify`. */
  readonly replacer = (_key: string, value: unknown): unknown => (typeof value === "string" ? this.redact(value) : value);

  /** Masks secrets in the strings and names of valid JSON text. */
  readonly redactJson: Redact = (text) => {
    if (this.#pattern === undefined) return text;
    return replaceStrings(text, (start, end) => {
      const value = decodeString(text, start, end);
      const masked = this.redact(value);
      return masked === value ? undefined : JSON.stringify(masked);
    });
  };
}

export function maskedPlainLines(text: string, redact: Redact): string {
  return text
    .split("\n")
    .map((line) => maskedPlainText(line, redact))
    .join("\n");
}

/** Unchanged, escaped once and twice for JSON, for ASCII JSON, and for a URL. */
function spellings(secret: string): string[] {
  const quoted = quote(secret);
  const inAscii = quoted.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return [secret, quoted, quote(quoted), inAscii, quote(inAscii), encodeURIComponent(secret.toWellFormed())];
}

function quote(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
