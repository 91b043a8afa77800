/** The largest number of wrong characters in a misspelled word. */
const MAX_TYPOS = 2;

/** Returns the known word that is most like a misspelled one; undefined if none is like it. */
export function nearest(word: string, known: Iterable<string>): string | undefined {
  let best: string | undefined;
  let fewest = MAX_TYPOS + 1;
  for (const each of known) {
    const count = typos(word, each);
    // Half of a short word would be another word.
    if (count >= fewest || count * 2 > each.length) continue;
    best = each;
    fewest = count;
  }
  return best;
}

/** Returns the number of characters to insert, remove or replace until `text` is `other` (the Levenshtein distance). */
function typos(text: string, other: string): number {
  if (Math.abs(text.length - other.length) > MAX_TYPOS) return MAX_TYPOS + 1;
  let above = Array.from({ length: other.length + 1 }, (_, column) => column);
  for (const [row, character] of Array.from(text).entries()) {
    const line = [row + 1];
    for (const [column, otherCharacter] of Array.from(other).entries()) {
      const [left = 0, up = 0, diagonal = 0] = [line[column], above[column + 1], above[column]];
      line.push(Math.min(left + 1, up + 1, diagonal + (character === otherCharacter ? 0 : 1)));
    }
    above = line;
  }
  return above[other.length] ?? 0;
}
