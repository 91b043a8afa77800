/**
 * Some readers, those of Go's `encoding/json` among them, take `"Name"` for `"name"`, and the later of the two counts. What is decided by
 * the one must not be done by the other.
 */

/** Letters beyond ASCII that some fold to an ASCII one: `ſ` and the Kelvin sign in Go, `İ` and `ı` in Java. */
const FOLDED: ReadonlyMap<number, number> = new Map([
  [0x017f, 115],
  [0x212a, 107],
  [0x0130, 105],
  [0x0131, 105],
]);

/** The same for two names that are equal when case is folded, and for no others. */
export function foldCase(name: string): string {
  return name.replaceAll(/[A-Z\u017f\u212a\u0130\u0131]/g, (letter) => String.fromCharCode(fold(letter.charCodeAt(0))));
}

/** Whether `key` is another spelling of `name`, which is ASCII: equal when case is folded, and only then. */
export function isOtherCase(key: string, name: string): boolean {
  // Each of these letters is one UTF-16 unit, as the ASCII letter is that it folds to.
  return key.length === name.length && isSpelledOtherwise(key, 0, name);
}

/** True if the text at `start` spells `name`, which is ASCII, in another case. */
export function isSpelledOtherwise(text: string, start: number, name: string): boolean {
  let isSame = true;
  for (let index = 0; index < name.length; index++) {
    const code = text.charCodeAt(start + index);
    const expected = name.charCodeAt(index);
    if (code === expected) continue;
    if (fold(code) !== fold(expected)) return false;
    isSame = false;
  }
  return !isSame;
}

/** True if some readers take `key` for `name`: they ignore case, or their strings end at NUL. */
export function isMistakenFor(key: string, name: string): boolean {
  return isOtherCase(key, name) || (key.length > name.length && key.startsWith(name) && key.charCodeAt(name.length) === 0);
}

function fold(code: number): number {
  if (code < 128) return code >= 65 && code <= 90 ? code + 32 : code;
  return FOLDED.get(code) ?? code;
}
