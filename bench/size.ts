// Prints how large the program, its documents and its tests are, beside the limits of `size-budget.json`: `npm run size`.
// `npm run size -- --write` lowers limits to today's figures. Raising one takes an editor and a reason.
// The time of `npm test` is not here: it depends on the machine, and a limit would fail by chance.

import { globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readDocuments } from "../test/support/markdown.ts";
import { countHops } from "./hops.ts";

type Figures = Readonly<Record<string, number>>;
type Budget = Readonly<Record<string, { readonly limit: number; readonly aim: number }>>;

interface SourceFile {
  readonly path: string;
  readonly text: string;
  readonly lines: number;
}

const ROOT = dirname(import.meta.dirname);
const BUDGET = join(ROOT, "size-budget.json");
const SMALL_LINES = 60;
const TYPE = /^(export )?(default )?(declare )?(abstract )?(interface|type|class|enum) /gm;
const BAG = new RegExp(`${TYPE.source}\\w*(Options|Settings|Parts|Access|Context|Facts)\\b`, "gm");

export function countFiles(): Figures {
  const source = readFiles("src/**/*.{ts,tsx}");
  const documents = readDocuments().filter(({ path }) => !path.startsWith("test/"));
  return {
    "named types and classes of src": count(source, TYPE),
    "bags of options of src": count(source, BAG),
    "files of src": source.length,
    "lines of src": linesOf(source),
    "kB of src": Math.ceil(source.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) / 1000),
    "words of documents": count(documents, /\S+/g),
    "lines of tests": linesOf(readFiles("{test,bench,chaos,hostile}/**/*.{ts,js,mjs}")),
  };
}

export async function countRequests(): Promise<Figures> {
  const hops = await countHops();
  return Object.fromEntries(
    hops.flatMap(({ request, files, functions }) => [
      [`files of ${request}`, files.length],
      [`functions of ${request}`, functions],
    ]),
  );
}

export function excesses(figures: Figures, budget = readBudget()): string[] {
  return Object.entries(figures).flatMap(([row, today]) => {
    const { limit } = budget[row] ?? { limit: 0 };
    return today > limit ? [`${row}: ${today} today, above the limit of ${limit}`] : [];
  });
}

/** Returns what has no limit, and shows whether a row became smaller for a good reason. */
function countBeside(): Readonly<Record<string, number | string>> {
  const source = readFiles("src/**/*.{ts,tsx}");
  const largest = source.reduce((one, other) => (other.lines > one.lines ? other : one));
  return {
    "lines that begin with import": count(source, /^\s*import/gm),
    "Pick<": count(source, /Pick</g),
    readonly: count(source, /\breadonly\b/g),
    [`files under ${SMALL_LINES} lines`]: source.filter(({ lines }) => lines < SMALL_LINES).length,
    "lines of the largest file": `${largest.lines} ${largest.path}`,
  };
}

function readBudget(): Budget {
  return JSON.parse(readFileSync(BUDGET, "utf8")) as Budget;
}

function readFiles(pattern: string): SourceFile[] {
  return globSync(pattern, { cwd: ROOT, exclude: ["**/node_modules/**"] }).map((path) => {
    const text = readFileSync(join(ROOT, path), "utf8");
    return { path, text, lines: text.split("\n").length - 1 };
  });
}

function linesOf(files: readonly SourceFile[]): number {
  return files.reduce((sum, { lines }) => sum + lines, 0);
}

function count(files: readonly { readonly text: string }[], pattern: RegExp): number {
  return files.reduce((sum, { text }) => sum + [...text.matchAll(pattern)].length, 0);
}

function line(row: string, cells: readonly (number | string)[]): string {
  return `${row.padEnd(40)}${cells.map((cell) => String(cell).padStart(8)).join("")}\n`;
}

function writeLowerLimits(figures: Figures, budget: Budget): void {
  const rows = Object.entries(budget).map(([row, { limit, aim }]) => {
    return `  ${JSON.stringify(row)}: { "limit": ${Math.min(limit, figures[row] ?? limit)}, "aim": ${aim} }`;
  });
  writeFileSync(BUDGET, `{\n${rows.join(",\n")}\n}\n`);
}

if (import.meta.main) {
  const figures = { ...(await countRequests()), ...countFiles() };
  if (process.argv.includes("--write")) writeLowerLimits(figures, readBudget());
  const budget = readBudget();
  const rows = Object.entries(figures).map(([row, today]) => line(row, [today, budget[row]?.limit ?? "", budget[row]?.aim ?? ""]));
  const beside = Object.entries(countBeside()).map(([row, today]) => line(row, [today]));
  process.stdout.write(`${line("", ["today", "limit", "aim"])}${rows.join("")}\n${beside.join("")}`);
}
