import { Code, decodeString, skipInvisible } from "./text.ts";

/** The length of `"method"` with an escape for each letter. */
const MAX_KEY_LENGTH = 38;

/** A longer id is not reported. */
const MAX_TOKEN_LENGTH = 1024;

/**
 * Reads the envelope of one JSON object that is not kept. It takes the text in pieces and keeps the top-level `id`, and
 * notes if there is a `method`. It accepts any input, but its results are meaningless if the input is not JSON.
 */
export class EnvelopeScanner {
  /** Undefined if the id is absent or repeated, because parsers differ on which one counts. */
  idText: string | undefined;
  hasMethod = false;
  /** True if the text does not begin with a brace. */
  hasTextBefore = false;
  #isBegun = false;
  #hasId = false;

  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #isKeyNext = false;
  /** The key or value being read at depth 1; undefined at other depths, or if it is too long. */
  #token: string | undefined;
  #key: string | undefined;

  push(chunk: string): void {
    let index = this.#isBegun ? 0 : this.#begin(chunk);
    while (index < chunk.length) {
      index = this.#isInString ? this.#scanString(chunk, index) : this.#scanStructure(chunk, index);
    }
  }

  #begin(chunk: string): number {
    const index = skipInvisible(chunk);
    this.#isBegun = index < chunk.length;
    this.hasTextBefore = this.#isBegun && chunk[index] !== "{";
    return index;
  }

  #scanString(chunk: string, start: number): number {
    let index = start;
    while (index < chunk.length) {
      const code = chunk.charCodeAt(index);
      index++;
      if (this.#isEscaped) this.#isEscaped = false;
      else if (code === Code.backslash) this.#isEscaped = true;
      else if (code === Code.quote) {
        this.#isInString = false;
        break;
      }
    }
    this.#collect(chunk, start, index);
    return index;
  }

  #scanStructure(chunk: string, index: number): number {
    const character = chunk.charAt(index);
    switch (character) {
      case '"':
        this.#isInString = true;
        if (this.#depth === 1 && this.#isKeyNext) this.#token = "";
        break;
      case "{":
      case "[":
        this.#depth++;
        this.#isKeyNext = this.#depth === 1 && character === "{";
        this.#token = undefined;
        return index + 1;
      case "}":
      case "]":
        if (this.#depth === 1) this.#endMember();
        this.#depth--;
        return index + 1;
      case ":":
        if (this.#depth === 1) this.#endKey();
        return index + 1;
      case ",":
        if (this.#depth === 1) this.#endMember();
        return index + 1;
    }
    this.#collect(chunk, index, index + 1);
    return index + 1;
  }

  #collect(chunk: string, start: number, end: number): void {
    if (this.#depth !== 1 || this.#token === undefined) return;
    this.#token = this.#token.length + end - start > MAX_TOKEN_LENGTH ? undefined : this.#token + chunk.slice(start, end);
  }

  #endKey(): void {
    const key = this.#token?.trim() ?? "";
    // A longer key is neither "id" nor "method", even with escapes.
    this.#key = key.length > MAX_KEY_LENGTH ? "" : key.includes("\\") ? decodeKey(key) : key.slice(1, -1);
    this.#isKeyNext = false;
    if (this.#key === "method") this.hasMethod = true;
    this.#token = this.#key === "id" ? "" : undefined;
  }

  #endMember(): void {
    if (this.#key === "id") {
      this.idText = this.#hasId ? undefined : this.#token?.trim();
      this.#hasId = true;
    }
    this.#key = undefined;
    this.#token = undefined;
    this.#isKeyNext = true;
  }
}

/** Decodes the escapes of a key. Returns an invalid key unchanged. */
function decodeKey(key: string): string {
  try {
    return decodeString(key, 0, key.length);
  } catch {
    return key;
  }
}
