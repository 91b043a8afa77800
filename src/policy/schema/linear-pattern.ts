import { createRequire } from "node:module";
import type * as Re2 from "re2js";
import { type PatternFlags, translatePattern, UnsupportedPatternError, withoutPairs } from "./pattern-translation.ts";

/** Longer ones are not matched at all. */
const MAX_PATTERN_LENGTH = 2000;
/** How many characters the engine of the platform passes in a step. */
const CHARACTERS_PER_STEP = 16;
/** Some tenths of a millisecond; more where there are many properties to look up, or repetitions to write out. */
const STEPS_TO_COMPILE = 10_000;
const STEPS_TO_READ_CHARACTER = 300;
const STEPS_TO_WRITE_CHARACTER = 100;
/** At worst, RE2 looks at each instruction for each character. It seldom does, and cannot be ended once it has begun. */
const LOOKS_PER_STEP = 3;
/** Of the states that RE2 finds on its way, which would be up to 8 MiB for each pattern. */
const MAX_KEPT_BYTES = 128 * 1024;
/** What these count for beside the instructions. */
const SIZE_OF_STATES = 1000;

/** Counts steps. @throws where there were too many. */
type Spend = (steps: number) => void;

export interface LinearPattern {
  /** What the pattern takes of memory, in instructions. */
  readonly size: number;
  test(text: string): boolean;
}

const load = createRequire(import.meta.url);

/**
 * A regular expression (ECMA-262, with the flag `u` if it is valid with it) that takes time in proportion to the text, whatever the
 * text: the engine of the platform goes back and forth, and `^(a+)+$` keeps it busy for years.
 *
 * @throws UnsupportedPatternError
 */
export function linearPattern(source: string, spend: Spend): LinearPattern {
  if (source.length > MAX_PATTERN_LENGTH) throw new UnsupportedPatternError(`it is longer than ${MAX_PATTERN_LENGTH} characters`);
  const { expression, flags } = nativeOf(source);
  return CANNOT_GO_BACK.test(source) ? new NativePattern(expression, spend) : new Re2Pattern(source, flags, spend);
}

function nativeOf(source: string): { expression: RegExp; flags: PatternFlags } {
  for (const flags of ["u", ""] as const) {
    try {
      return { expression: new RegExp(source, flags), flags };
    } catch {
      // Not valid with these flags. Many patterns are written for engines that are less strict than the flag `u` is.
    }
  }
  throw new UnsupportedPatternError("it is no regular expression of ECMA-262");
}

/** What takes one character whatever the flags; it need not be all that does. */
const CHARACTER = String.raw`(?:\[(?:[^\\\]]|\\.)*\]|\\[dDwWsStnrfv.+*?()[\]{}|^$\\/-]|[\w @#%&~\x60'"<>=!:;,/.-])`;
/**
 * One character; or, from the start of the text, some of a fixed number each, and at its end one of a variable number, with nothing
 * after it that could fail more than once for each of them.
 */
const CANNOT_GO_BACK = new RegExp(
  String.raw`^(?:${CHARACTER}|\^(?:${CHARACTER}(?:\{\d+\})?)*(?:${CHARACTER}(?:[*+?]|\{\d+,\d*\})\??)?\$?)$`,
  "s",
);

class NativePattern implements LinearPattern {
  readonly size = 1;
  readonly #expression: RegExp;
  readonly #spend: Spend;

  constructor(expression: RegExp, spend: Spend) {
    this.#expression = expression;
    this.#spend = spend;
  }

  test(text: string): boolean {
    this.#spend(1 + text.length / CHARACTERS_PER_STEP);
    return this.#expression.test(text);
  }
}

class Re2Pattern implements LinearPattern {
  readonly size: number;
  readonly #expression: Re2.RE2JS;
  readonly #hasPairs: boolean;
  readonly #spend: Spend;
  readonly #stepsPerCharacter: number;

  constructor(source: string, flags: PatternFlags, spend: Spend) {
    const { translated, size } = translatePattern(source, flags);
    spend(STEPS_TO_COMPILE + STEPS_TO_READ_CHARACTER * source.length + STEPS_TO_WRITE_CHARACTER * size);
    this.#expression = compile(translated);
    this.#hasPairs = flags === "u";
    this.#spend = spend;
    const instructions = this.#expression.programSize();
    this.size = SIZE_OF_STATES + instructions;
    this.#stepsPerCharacter = instructions / LOOKS_PER_STEP;
  }

  test(text: string): boolean {
    this.#spend(1 + text.length * this.#stepsPerCharacter);
    const matches = this.#expression.test(this.#hasPairs ? text : withoutPairs(text));
    const { dfa } = this.#expression.re2();
    if (dfa.maxMem - dfa.memBudget > MAX_KEPT_BYTES) {
      dfa.clearCache();
      this.#expression.reset();
    }
    return matches;
  }
}

function compile(source: string): Re2.RE2JS {
  // Loaded with the first pattern that needs it.
  const { RE2JS } = load("re2js") as typeof Re2;
  try {
    return RE2JS.compile(source);
  } catch (error) {
    throw new UnsupportedPatternError(error instanceof Error ? error.message : "RE2 does not take it");
  }
}
