/**
 * Returns true if a tool's name matches a pattern. `*` matches any characters or none, `?` matches one code point, and other characters
 * match themselves. Case matters, and the whole name must match.
 *
 * Clients choose the names and must not choose the cost, so regular expressions and caches are not used. The cost is at most the product
 * of the lengths of name and pattern, and usually the length of the name.
 */
type MatchName = (name: string) => boolean;

const STAR = 42;
const QUESTION_MARK = 63;

/** Creates a function that returns true if a name matches any of the patterns. */
export function createNameMatcher(patterns: readonly string[]): MatchName {
  // Patterns without wildcards need only one lookup.
  const names = new Set(patterns.filter((pattern) => !hasWildcard(pattern)));
  const globs = patterns.filter(hasWildcard).map(matcherOf);
  if (globs.length === 0) return (name) => names.has(name);
  return (name) => names.has(name) || globs.some((matches) => matches(name));
}

/** Creates a function that returns the value of the first pattern that a name matches. */
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

/** After a mismatch, only the last star takes one more code point. Earlier stars never need to change. */
function matchesGlob(pattern: readonly number[], name: string): boolean {
  let position = 0;
  let index = 0;
  /** The position in the pattern after the last star; -1 before the first. */
  let afterStar = -1;
  /** The end of the part of the name that this star matches. */
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

/** Returns the length of a code point in UTF-16 units. */
function widthOf(codePoint: number): number {
  return codePoint > 0xffff ? 2 : 1;
}
