import { globSync, readFileSync } from "node:fs";
import { argv, stdout } from "node:process";
import { parseArgs } from "node:util";
import { type Argument, type CallExpression, type Expression, parseSync, Visitor } from "oxc-parser";

/** A comment, a message, a paragraph, a table cell or a test title. */
interface Passage {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

interface Place {
  readonly file: string;
  readonly line: number;
  readonly excerpt: string;
}

/** A habit that a reader stumbles over. `find` returns the offset of each occurrence in a passage. */
interface Habit {
  readonly title: string;
  readonly unit: "per 1000 words" | "%" | "count";
  readonly only?: "src comments" | "test titles";
  readonly find: (text: string) => number[];
}

const ROOT = `${import.meta.dirname}/../`;
const MAX_SENTENCE_WORDS = 25;
const MAX_TITLE_WORDS = 15;
const WORD = /[\p{L}\p{N}_$][\p{L}\p{N}_$'’./-]*/gu;
/** An end mark that is followed by white space and not part of an abbreviation. */
const SENTENCE_END = /(?<!\b(?:e\.g|i\.e|etc|cf|vs))[.!?][)"'”`*]*\s+/gu;
/** `where` after one of these names a place: "the file where", "knows where", "in the place where". */
const PLACE_BEFORE_WHERE =
  /\b(?:place|places|point|file|folder|position|offset|spot|line|one|ones|part|from|to|of|about|says?|knows?|tells?|shows?|told|see|sees|is|are|and|or|just|exactly|no|matter) $/u;

const HABITS: Readonly<Record<string, Habit>> = {
  where: { title: "`where` for `if` or `when`", unit: "per 1000 words", find: conditionalWhere },
  "where-any": { title: "`where` at all", unit: "per 1000 words", find: matches(/\bwhere\b/giu) },
  "where-neither": {
    title: "`where` with neither, no, none, nothing",
    unit: "count",
    find: matches(/\bwhere (?:neither|no|none|nothing)\b/giu),
  },
  begins: {
    title: "begins with What, Whether, Who or How",
    unit: "%",
    find: (text) => sentencesThatBegin(text).filter((start) => start === 0),
  },
  "begins-any": { title: "a sentence begins so", unit: "count", find: sentencesThatBegin },
  nobody: {
    title: "nobody, somebody, everybody, whoever",
    unit: "count",
    find: matches(/\b(?:nobody|somebody|everybody|whoever|whomever)\b/giu),
  },
  "is-no": {
    title: "`is no X` for `is not an X`",
    unit: "count",
    find: matches(/(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|such\b)\p{L}+/giu),
  },
  subjectless: {
    title: "begins with Of, That of, Those of or In which",
    unit: "count",
    find: matches(/^\s*(?:of|that of|those of|in which)\b/giu),
    only: "src comments",
  },
  long: { title: `sentences over ${MAX_SENTENCE_WORDS} words`, unit: "count", find: longSentences },
  "long-titles": {
    title: `test titles over ${MAX_TITLE_WORDS} words`,
    unit: "count",
    find: (text) => (words(text) > MAX_TITLE_WORDS ? [0] : []),
    only: "test titles",
  },
};

function matches(pattern: RegExp): (text: string) => number[] {
  return (text) => [...text.matchAll(pattern)].map(({ index }) => index);
}

function words(text: string): number {
  return text.match(WORD)?.length ?? 0;
}

function wordCount(passages: readonly Passage[]): number {
  return passages.reduce((total, { text }) => total + words(text), 0);
}

function conditionalWhere(text: string): number[] {
  return matches(/\bwhere\b/giu)(text).filter(
    (index) => !PLACE_BEFORE_WHERE.test(text.slice(0, index).replace(/\s+$/u, " ").toLowerCase()),
  );
}

function sentenceStarts(text: string): number[] {
  return [0, ...[...text.matchAll(SENTENCE_END)].map((end) => end.index + end[0].length)];
}

function sentencesThatBegin(text: string): number[] {
  return sentenceStarts(text).filter((start) => /^[^\p{L}]*(?:what|whatever|whether|who|whoever|how)\b/iu.test(text.slice(start)));
}

function longSentences(text: string): number[] {
  return sentenceStarts(text).filter((start, index, starts) => words(text.slice(start, starts[index + 1])) > MAX_SENTENCE_WORDS);
}

const lineOf = (source: string, offset: number): number => source.slice(0, offset).split("\n").length;

function read(...patterns: string[]): { file: string; source: string }[] {
  const files = globSync(patterns, { cwd: ROOT, exclude: (name) => name.split("/").includes("node_modules") }).sort();
  return files.map((file) => ({ file, source: readFileSync(ROOT + file, "utf8") }));
}

/** Adjacent `//` lines are one passage. */
function comments(file: string, source: string): Passage[] {
  const passages: { file: string; line: number; text: string; end: number }[] = [];
  for (const { type, start, end, value } of parseSync(file, source).comments) {
    const last = passages.at(-1);
    if (type === "Line" && last !== undefined && /^[\t ]*\n[\t ]*$/u.test(source.slice(last.end, start))) {
      last.text += `\n${value}`;
      last.end = end;
    } else {
      const text = type === "Line" ? value : value.replaceAll(/^[\t ]*\*+/gmu, "");
      passages.push({ file, line: lineOf(source, start), text, end });
    }
  }
  return passages.filter(({ text }) => words(text) > 1);
}

/** The text of a string or template; `undefined` for any other expression. An inserted value counts as one word. */
function textOf(node: Expression | Argument | undefined): string | undefined {
  if (node?.type === "Literal") return typeof node.value === "string" ? node.value : undefined;
  return node?.type === "TemplateLiteral" ? node.quasis.map(({ value }) => value.cooked ?? value.raw).join("X") : undefined;
}

/** Strings with a space between words: messages of errors and logs, and help texts. */
function messages(file: string, source: string): Passage[] {
  const passages: Passage[] = [];
  const add = (node: Expression): void => {
    const text = textOf(node);
    if (text !== undefined && /\p{L}[,:;.]? \p{L}/u.test(text)) passages.push({ file, line: lineOf(source, node.start), text });
  };
  new Visitor({ Literal: add, TemplateLiteral: add }).visit(parseSync(file, source).program);
  return passages;
}

function testTitles(file: string, source: string): Passage[] {
  const passages: Passage[] = [];
  const add = ({ callee, arguments: [title], start }: CallExpression): void => {
    const text = textOf(title);
    const name = /^(?:it|test|describe)\b/u.test(source.slice(callee.start, callee.end));
    if (name && text !== undefined) passages.push({ file, line: lineOf(source, start), text });
  };
  new Visitor({ CallExpression: add }).visit(parseSync(file, source).program);
  return passages;
}

/** Paragraphs, list items and table cells, without code blocks and link targets. Inline code counts as one word. */
function paragraphs(file: string, source: string): Passage[] {
  const blank = (text: string): string => text.replaceAll(/[^\n]+/gu, "");
  const prose = source
    .replaceAll(/^( *)```.*?^\1```|<!--.*?-->|^\[[^\]\n]+\]: [^\n]+/gmsu, blank)
    .replaceAll(/\]\([^)]*\)/gu, "]")
    .replaceAll(/`[^`\n]+`/gu, "code");
  const blocks = prose.matchAll(
    /(?:(?!^\s*(?:$|[-*|#>]|\d+\.))^.+\n?)+|^\s*(?:[-*#>]|\d+\.).*\n?(?:^ +(?![-*]|\d+\.)\S.*\n?)*|[^|\n]+(?=\|)/gmu,
  );
  return [...blocks].map(({ 0: text, index }) => ({ file, line: lineOf(prose, index), text })).filter(({ text }) => words(text) > 1);
}

function passagesOf(parse: (file: string, source: string) => Passage[], ...patterns: string[]): Passage[] {
  return read(...patterns).flatMap(({ file, source }) => parse(file, source));
}

const TOOLS = ["test/**/*.ts", "bench/*.ts", "chaos/**/*.ts", "hostile/**/*.ts", "docs/*.ts"];
const GROUPS: Readonly<Record<string, readonly Passage[]>> = {
  "src comments": passagesOf(comments, "src/**/*.{ts,tsx}"),
  "src messages": passagesOf(messages, "src/**/*.{ts,tsx}"),
  documents: passagesOf(paragraphs, "*.md", "docs/*.md", "docs/operations/*.md", "bench/*.md", "examples/*.md"),
  decisions: passagesOf(paragraphs, "docs/decisions/*.md"),
  "test comments": passagesOf(comments, ...TOOLS),
  "test titles": passagesOf(testTitles, "test/**/*.test.ts"),
};

function places(habit: Habit, passages: readonly Passage[]): Place[] {
  return passages.flatMap(({ file, line, text }) =>
    habit.find(text).map((offset) => ({
      file,
      line: line + text.slice(0, offset).split("\n").length - 1,
      excerpt: text.slice(Math.max(0, offset - 30), offset + 90).replaceAll(/\s+/gu, " "),
    })),
  );
}

function figure(habit: Habit, passages: readonly Passage[]): string {
  const count = places(habit, passages).length;
  if (habit.unit === "%") return `${((100 * count) / passages.length).toFixed(1)} %`;
  return habit.unit === "count" ? String(count) : ((1000 * count) / wordCount(passages)).toFixed(1);
}

function table(): string {
  const groups = Object.entries(GROUPS);
  const row = (title: string, cells: readonly string[]): string =>
    `| ${title.padEnd(66)} | ${cells.map((cell) => cell.padStart(13)).join(" | ")} |\n`;
  const rows = Object.entries(HABITS).map(([name, habit]) => {
    const figures = groups.map(([group, passages]) => ((habit.only ?? group) === group ? figure(habit, passages) : ""));
    return row(`${name}: ${habit.title}, ${habit.unit}`, figures);
  });
  const sums = [
    row(
      "passages",
      groups.map(([, passages]) => String(passages.length)),
    ),
    row(
      "words",
      groups.map(([, passages]) => String(wordCount(passages))),
    ),
  ];
  const head = [
    row("", Object.keys(GROUPS)),
    row(
      "---",
      groups.map(() => "---:"),
    ),
  ];
  return [...head, ...rows, ...sums].join("");
}

/** One line for each occurrence of a habit, or of a word that is not the name of one. */
function listing(name: string): string {
  const habit = HABITS[name] ?? { find: matches(new RegExp(`\\b${name}\\b`, "giu")), title: name, unit: "count" };
  return Object.entries(GROUPS)
    .filter(([group]) => (habit.only ?? group) === group)
    .flatMap(([, passages]) => places(habit, passages).map(({ file, line, excerpt }) => `${file}:${line}: ${excerpt}\n`))
    .join("");
}

const { list } = parseArgs({ args: argv.slice(2), options: { list: { type: "string" } } }).values;
stdout.write(list === undefined ? table() : listing(list));
