import { createContext, Script } from "node:vm";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { linearPattern } from "../../../src/policy/schema/linear-pattern.ts";

function matches(source: string, text: string): boolean {
  return linearPattern(source, () => {}).test(text);
}

function stepsOf(source: string, text: string): number {
  let total = 0;
  linearPattern(source, (steps) => (total += steps)).test(text);
  return total;
}

/** Whether it matches, or the name of what is thrown. */
function outcome(source: string, text: string): boolean | string {
  try {
    return matches(source, text);
  } catch (error) {
    return error instanceof Error ? error.name : "no error";
  }
}

/** Patterns of few characters, so that texts of the same characters match often. */
function patterns(): fc.Arbitrary<string> {
  return fc.letrec<{ choice: string; sequence: string; term: string; atom: string }>((tie) => ({
    choice: fc.array(tie("sequence"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("|")),
    sequence: fc.array(tie("term"), { maxLength: 4 }).map((parts) => parts.join("")),
    term: fc
      .tuple(tie("atom"), fc.constantFrom("", "", "*", "+", "?", "{2}", "{1}?", "{1,}", "{0,2}", "{1,3}?", "*?", "+?"))
      .map((parts) => parts.join("")),
    atom: fc.oneof(
      { maxDepth: 2, withCrossShrink: true },
      fc.constantFrom(
        "a",
        "b",
        ".",
        "[ab]",
        "[^a]",
        "\\w",
        "\\W",
        "\\d",
        "-",
        "_",
        "é",
        "😀",
        "[é😀]",
        "\\u0061",
        "\\x61",
        "\\.",
        "[\\]a]",
        "\\s",
        "\\S",
        "\\D",
        "[^\\S]",
        "[\\s-]",
        "[\\w-.]",
        "[.-\\w]",
        "[--/]",
        "[a-b-_]",
        "[[:alpha:]]",
        "[a&&b]",
        "[\\b\\cA\\0]",
        "[]",
        "[^]",
        "[^é😀]",
        "[\\u0000-\\uffff]",
        "[^\\ud800-\\udfff]",
        "\\ud83d",
        "\\ud83d\\ude00",
        "\\u{1F600}",
        "\\p{L}",
        "\\P{Lu}",
        "[^\\p{Script=Greek}\\d]",
        "\\v",
        "\\@",
        "\\A",
        "\\z",
        "\\Q",
        "\\a",
        "{",
        "/",
        "#",
      ),
      tie("choice").map((choice) => `(?:${choice})`),
      tie("choice").map((choice) => `(${choice})`),
      // Not `(?:^)`: V8 does not find /[^]*?a^|/u in "".
      fc.constantFrom("(?:$)", "(?:\\b)", "(?:\\B)", "(?:)", "(?<name>a)"),
    ),
  })).choice;
}

const texts = (): fc.Arbitrary<string> =>
  fc
    .array(fc.constantFrom(...Array.from("ab-_0éΩ😀\n\r\t\v\b\0\u0001\u00a0\u2028\ufeff\uffff.[]{:&/#@AQz"), "\ud83d", "\ude00"), {
      maxLength: 8,
    })
    .map((parts) => parts.join(""));

/**
 * Looks for the pattern from the start, one character after another. When it is V8 that looks, it finds `\B` between the two halves of
 * a surrogate pair, and does not find `[^a]$` in "😀".
 */
function native(source: string): RegExp | undefined {
  for (const flags of ["u", ""]) {
    try {
      RegExp(source, flags);
      return new RegExp(`^[^]*?(?:${source})`, flags);
    } catch {
      // Not with these flags.
    }
  }
  return undefined;
}

const matching = new Script("expression.test(text)");
const given = createContext({});
const NATIVE_TIMEOUT_MS = 200;

/** What the engine of the platform finds; undefined where it goes back and forth for too long, as with what is nested by chance. */
function nativeMatches(expression: RegExp, text: string): boolean | undefined {
  try {
    Object.assign(given, { expression, text });
    return matching.runInContext(given, { timeout: NATIVE_TIMEOUT_MS }) as boolean;
  } catch {
    return undefined;
  }
}

describe("a pattern matched in linear time", () => {
  it("matches what the engine of the platform matches", () => {
    fc.assert(
      fc.property(patterns(), fc.array(texts(), { minLength: 1, maxLength: 5 }), (source, samples) => {
        const expression = native(source);
        fc.pre(expression !== undefined);
        const pattern = linearPattern(source, () => {});
        for (const text of samples) {
          const found = nativeMatches(expression, text);
          fc.pre(found !== undefined);
          expect([source, text, pattern.test(text)]).toEqual([source, text, found]);
        }
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ["^[0-9a-f]{8}-[0-9a-f]{4}$", "0123abcd-0f0f", true],
    ["^[0-9a-f]{8}-[0-9a-f]{4}$", "0123abcd-0f0", false],
    ["^\\p{Lu}\\p{Ll}+$", "Émile", true],
    ["^\\p{Lu}(?:\\p{Ll})+$", "Émile", true],
    ["^.$", "😀", true],
    ["^(?:.)$", "😀", true],
    ["(^|,)x{2,3}(,|$)", "y,xx,z", true],
    ["(?:a|^)b+", "bb", true],
    ["(?:a|^)b+", "cb", false],
    ["a^b", "ab", false],
    ["(?:^a|b)(?:$|c)", "xbc", true],
    ["(?:^a|b)(?:$|c)", "xac", false],
    ["(^|,)x{2,3}(,|$)", "y,xxxx,z", false],
    // Not valid with the flag `u`, as many that are written for other engines.
    ["^[\\w-.]+\\@x$", "a-b.c@x", true],
    ["^(?:[\\w-.]+)\\@x$", "a-b.c@x", true],
    ["^(?:a\\-b)+$", "a-ba-b", true],
    ["^{x}$", "{x}", true],
    ["(?:^{x})$", "{x}", true],
    ["[\\s\\S]", "\n", true],
    ["", "anything", true],
    ["^(?:a|b|)$", "", true],
    ["^(?:\\ud83d\\ude00)+$", "😀😀", true],
    ["^(?:\\u{1F600})+$", "😀😀", true],
    ["^\\/(?:[a-z]+\\/)*$", "/a/b/", true],
    ["\\bfoo\\b", "a foo b", true],
    ["\\bfoo\\b", "afoo", false],
  ])("matches %s as expected", (source, text, expected) => {
    expect(matches(source, text)).toBe(expected);
    expect(native(source)?.test(text)).toBe(expected);
  });

  it.each([
    ["^(a+)+$", "a"],
    ["^(a|a)*$", "a"],
    ["^(a|aa)+$", "a"],
    ["(x+x+)+y", "x"],
    ["^(([a-z])+.)+[A-Z]([a-z])+$", "a"],
    ["^(\\w+\\s?)*$", "a"],
    ["\\s+$", " "],
    ["^(.*a){12}$", "a"],
    ["^([a-zA-Z0-9_.-])+@(([a-zA-Z0-9-])+\\.)+([a-zA-Z0-9]{2,4})+$", "a"],
    ["(?:a?){200}a{200}", "a"],
  ])("takes time in proportion to the text: %s", (source, character) => {
    const short = stepsOf(source, `${character.repeat(5_000)}!`);
    const long = stepsOf(source, `${character.repeat(50_000)}!`);
    expect(long).toBeGreaterThan(0);
    expect(long / short).toBeLessThan(10.5);
  });

  it("is done with a hostile text of 50,000 characters at once", () => {
    const started = performance.now();
    expect(matches("^(a+)+$", `${"a".repeat(50_000)}!`)).toBe(false);
    expect(performance.now() - started).toBeLessThan(1000);
  });

  it("leaves to the platform what cannot go back far, in long texts as well", () => {
    const text = "x".repeat(4_000_000);
    expect(matches("^[\\s\\S]*$", text)).toBe(true);
    expect(matches("^[^\\0]{1,}y$", text)).toBe(false);
    expect(stepsOf("^[\\s\\S]*$", text)).toBeLessThan(300_000);
  });

  it("leaves to the platform nothing that it looks at again and again", () => {
    const started = performance.now();
    expect(matches("^a*a{999}$", `${"a".repeat(200_000)}!`)).toBe(false);
    expect(performance.now() - started).toBeLessThan(1500);
  });

  it("keeps little of what it found on its way, and finds the same again", () => {
    const pattern = linearPattern("^(?:[ab]*a[ab]{12})+$", () => {});
    const text = Array.from({ length: 20_000 }, (_item, index) => "ab"[((index * index) % 7) % 2]).join("");
    for (let round = 0; round < 3; round++) {
      expect(pattern.test(text)).toBe(native("^(?:[ab]*a[ab]{12})$")?.test(text));
      expect(pattern.test(`${text}c`)).toBe(false);
    }
  });

  it("knows a property of characters as the platform does, or not at all", () => {
    const names = [
      "L",
      "Lu",
      "M",
      "Nd",
      "P",
      "S",
      "Zs",
      "Cc",
      "Cn",
      "gc=Lo",
      "Script=Latin",
      "sc=Han",
      "Emoji",
      "Alphabetic",
      "White_Space",
      "Any",
    ];
    const sample = Array.from({ length: 0x11_0000 / 16 }, (_item, index) =>
      String.fromCodePoint(index < 0x1000 ? index : index * 16 + (index % 16)),
    );
    for (const name of names) {
      const pattern = linearPattern(`(?:\\p{${name}})+`, () => {});
      const expected = new RegExp(`\\p{${name}}`, "u");
      expect([name, sample.filter((character) => pattern.test(character) !== expected.test(character))]).toEqual([name, []]);
    }
  });

  it("can be ended by whoever counts its steps", () => {
    let left = 100_000;
    const spend = (steps: number): void => {
      left -= steps;
      if (left < 0) throw new Error("enough");
    };
    const pattern = linearPattern("^(?:a|b)*$", spend);
    left = 100;
    expect(() => pattern.test("ab".repeat(100))).toThrow("enough");
    left = 100;
    expect(pattern.test("abab")).toBe(true);
  });

  it.each([
    ["(?=a)a", "look-around"],
    ["(?!a)b", "look-around"],
    ["(?<=a)b", "look-around"],
    ["(?<!a)b", "look-around"],
    ["(?i:a)", "look-around and modifiers"],
    ["(a)\\1", "back references"],
    ["(?<n>a)\\k<n>", "back references"],
    ["(?P<n>a)", "no regular expression"],
    ["[", "no regular expression"],
    ["(a{1,100}){1,100}", "too many"],
    ["(a{0,1000}){0,1000}", "too many"],
    [`(?:${"\\p{L}?".repeat(300)}){1000}`, "too many"],
    [`(?:${"()".repeat(900)}){1000}`, "too many"],
    ["(?:a|b){1001}", "invalid repeat count"],
    ["(?:\\p{Letter})+", "invalid character class range"],
    ["a".repeat(2001), "longer than 2000"],
  ])("does not take %s", (source, reason) => {
    expect(() => linearPattern(source, () => {})).toThrow(reason);
  });

  it("is told from others without going back and forth over it", () => {
    for (const part of ["[^a]", "[a]", "a{1}", "\\d", "[^\\]]"])
      expect([part, outcome(`^${part.repeat(300)}(?:b|c)`, "x")]).toEqual([part, false]);
  });

  it("takes nothing else than an error of its own for any source", () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...Array.from("()[]{}|?*+^$\\ab1,.:<>=!-ukp")) })),
        fc.string(),
        (source, text) => {
          const expression = native(source);
          const found = expression === undefined ? undefined : nativeMatches(expression, text);
          fc.pre(expression === undefined || found !== undefined);
          expect([found, "UnsupportedPatternError"]).toContain(outcome(source, text));
        },
      ),
      { numRuns: 5000 },
    );
  });
});
