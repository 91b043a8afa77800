/** The characters that JSON is made of (RFC 8259), as UTF-16 units. */
export const Code = {
  tab: 9,
  lineFeed: 10,
  carriageReturn: 13,
  space: 32,
  quote: 34,
  plus: 43,
  comma: 44,
  minus: 45,
  dot: 46,
  slash: 47,
  zero: 48,
  nine: 57,
  colon: 58,
  upperA: 65,
  upperE: 69,
  upperF: 70,
  openBracket: 91,
  backslash: 92,
  closeBracket: 93,
  lowerA: 97,
  lowerB: 98,
  lowerE: 101,
  lowerF: 102,
  lowerN: 110,
  lowerR: 114,
  lowerT: 116,
  lowerU: 117,
  openBrace: 123,
  closeBrace: 125,
} as const;

const HEX_DIGITS = 4;

/** @param stop the position to stop at, even if more white space follows. */
export function skipWhitespace(text: string, start: number, stop = text.length): number {
  let index = start;
  while (index < stop && isWhitespace(text.charCodeAt(index))) index++;
  return index;
}

export function isWhitespace(code: number): boolean {
  return code === Code.space || code === Code.lineFeed || code === Code.carriageReturn || code === Code.tab;
}

const LITERALS: ReadonlyMap<number, string> = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), word]));

/** @returns the end of the `true`, `false` or `null` that begins at `start`; -1 if there is none. */
export function literalEnd(text: string, start: number): number {
  const word = LITERALS.get(text.charCodeAt(start));
  return word !== undefined && text.startsWith(word, start) ? start + word.length : -1;
}

export function isNumberStart(code: number): boolean {
  return code === Code.minus || isDigit(code);
}

/** @returns the end of the number that begins at `start`; -1 if there is none. */
export function numberEnd(text: string, start: number): number {
  const from = text.charCodeAt(start) === Code.minus ? start + 1 : start;
  let index = text.charCodeAt(from) === Code.zero ? from + 1 : digitsEnd(text, from);
  if (index === from) return -1;
  if (text.charCodeAt(index) === Code.dot) {
    const fraction = index + 1;
    index = digitsEnd(text, fraction);
    if (index === fraction) return -1;
  }
  const letter = text.charCodeAt(index);
  if (letter !== Code.lowerE && letter !== Code.upperE) return index;
  const sign = text.charCodeAt(index + 1);
  const exponent = sign === Code.plus || sign === Code.minus ? index + 2 : index + 1;
  index = digitsEnd(text, exponent);
  return index === exponent ? -1 : index;
}

/** @returns the end of the escape whose backslash is before `start`; -1 if there is none. */
export function escapeEnd(text: string, start: number): number {
  switch (text.charCodeAt(start)) {
    case Code.quote:
    case Code.slash:
    case Code.backslash:
    case Code.lowerB:
    case Code.lowerF:
    case Code.lowerN:
    case Code.lowerR:
    case Code.lowerT:
      return start + 1;
    case Code.lowerU: {
      const end = start + 1 + HEX_DIGITS;
      for (let index = start + 1; index < end; index++) if (!isHexDigit(text.charCodeAt(index))) return -1;
      return end;
    }
    default:
      return -1;
  }
}

function digitsEnd(text: string, start: number): number {
  let index = start;
  while (isDigit(text.charCodeAt(index))) index++;
  return index;
}

function isDigit(code: number): boolean {
  return code >= Code.zero && code <= Code.nine;
}

function isHexDigit(code: number): boolean {
  return isDigit(code) || (code >= Code.lowerA && code <= Code.lowerF) || (code >= Code.upperA && code <= Code.upperF);
}
