/**
 * Patterns for names of tools: `*` stands for any characters, none too, `?` for exactly one code point, all else for itself. Case counts,
 * and the whole name has to match.
 *
 * A client chooses the name, so it must not choose the cost: no regular expression, no cache. A name costs at most one step for each of
 * its code points and each of the pattern's, and mostly one for each of its own.
 */
type MatchName = (name: string) => boolean;

const STAR = 42;
const QUESTION_MARK = 63;

/** Whether a name matches any of the patterns. */
export function createNameMatcher(patterns: readonly string[]): MatchName {
  // However many names are spelled out, it takes one look.
  const names = new Set(patterns.filter((pattern) => !hasWildcard(pattern)));
  const globs = patterns.filter(hasWildcard).map(matcherOf);
  if (globs.length === 0) return (name) => names.has(name);
  return (name) => names.has(name) || globs.some((matches) => matches(name));
}

/** The value of the first pattern that a name matches. */
export function findByName<V>(numbers: readonly { readonly pattern: string; readonly value: V }[]): (name: string) => V | undefined {
  const rules = numbers.map(({ pattern, value }) => ({ matches: matcherOf(pattern), value }));
  return (name) => rules.find(({ matches }) => matches(name))?.value;
}

function hasWildcard(pattern: string): boolean {
  return pattern.includes("*") || pattern.includes("?");
}

function matcherOf(pattern: string): MatchName {
  if (!hasWildcard(pattern)) return (name) => name === pattern;
  const points = Array.from(pattern, (character) => character.codePointAt(0) ?? 0);
  return (name) => matchesGlob(points, name);
}

/** Where it does not go on, only the last star has to take one more code point: what the stars before it took is never looked at again. */
function matchesGlob(pattern: readonly number[], name: string): boolean {
  let position = 0;
  let index = 0;
  /** Behind the last star; -1 while there was none. */
  let afterStar = -1;
  /** The end in the name of what that star has taken. */
  let starEnd = 0;
  while (index < name.length) {
    const wanted = pattern[position];
    if (wanted === STAR) {
      position++;
      if (position === pattern.length) return true;
      afterStar = position;
      starEnd = index;
      continue;
    }
    const point = name.codePointAt(index) ?? 0;
    if (wanted === point || wanted === QUESTION_MARK) {
      position++;
      index += widthOf(point);
      continue;
    }
    if (afterStar === -1) return false;
    starEnd += widthOf(name.codePointAt(starEnd) ?? 0);
    index = starEnd;
    position = afterStar;
  }
  while (pattern[position] === STAR) position++;
  return position === pattern.length;
}

/** In UTF-16 units. */
function widthOf(codePoint: number): number {
  return codePoint > 0xffff ? 2 : 1;
}
