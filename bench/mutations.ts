// Breaks `src` in one place at a time, and runs the tests that should notice it. The choice depends on the seed and on `src` only, so that two sets of tests can be compared.
// `npm run mutations -- --seed 37` prints the choice; with `--out /tmp/results.jsonl` it runs the tests, and resumes a run that was interrupted.
// Each mutation is written into `src` and taken back.

import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, closeSync, existsSync, globSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs, stripVTControlCharacters } from "node:util";
import { parseSync } from "oxc-parser";
import { positive } from "./command.ts";

const ROOT = join(import.meta.dirname, "..");
const MAX_IN_FILE = 2;
const SHORT_LENGTH = 40;
/** How often a kind is chosen, beside the others: there are many conditions and calls, and few bounds and limits. */
const WEIGHTS = { condition: 1, call: 1, exit: 1.5, result: 2, logic: 2, boolean: 2, default: 3, limit: 3, bound: 4 };
const OPPOSITES: Record<string, string> = { "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&" };
const LOG_CALL = /(log|console)\w*\??\.(trace|debug|info|warn|error|fatal)$/i;
const LIMIT_NAME = /^(?=.*(MAX|MIN|LIMIT|_MS|BYTES|LENGTH|DEPTH|SIZE))[A-Z_\d]+$/;

/** The lines of a place, without and with the mutation. */
type Description = { readonly [key in "file" | "before" | "after"]: string };

export interface Mutation extends Description {
  readonly kind: keyof typeof WEIGHTS;
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

/** `test` is the first test that failed. */
type Result = Description & { readonly outcome: string; readonly test: string | undefined; readonly seconds: number };
type Place = Pick<Mutation, "start" | "end">;
type Node = Place & { readonly type: string; readonly [key: string]: unknown };
type Change = [kind: Mutation["kind"], place: Place, replacement: string];

const isNode = (value: unknown): value is Node => typeof value === "object" && value !== null && "type" in value;
const slice = (text: string, { start, end }: Place): string => text.slice(start, end);
const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ").trim();
const isType = ({ type }: Node): boolean => type.startsWith("TS") && !/^TS(As|NonNull|Satisfies)Expression$/.test(type);
const isLogCall = ({ callee }: Node, text: string): boolean => isNode(callee) && LOG_CALL.test(slice(text, callee));
const identify = ({ file, before, after }: Description): string => [file, before, after].join("\n");

/** The mutations of a file, in its order. Of two that read the same, the first. */
export function mutationsOf(file: string, text: string): Mutation[] {
  const found = new Map<string, Mutation>();
  const visit = (node: Node, ancestors: readonly Node[]): void => {
    if (isType(node) || isLogCall(node, text)) return;
    for (const [kind, { start, end }, replacement] of mutationsAt(node, ancestors, text)) {
      const to = text.indexOf("\n", end);
      let from = text.lastIndexOf("\n", start - 1) + 1;
      // A short line, such as a mere `return`, says little without the one before.
      if (to - from < SHORT_LENGTH && from > 0) from = text.lastIndexOf("\n", from - 2) + 1;
      const before = oneLine(text.slice(from, to));
      const after = oneLine(text.slice(from, start) + replacement + text.slice(end, to));
      const mutation = { file, before, after, kind, start, end, replacement };
      if (!found.has(identify(mutation))) found.set(identify(mutation), mutation);
    }
    for (const child of Object.values(node).flat()) if (isNode(child)) visit(child, [...ancestors, node]);
  };
  visit(parseSync(file, text).program as unknown as Node, []);
  return [...found.values()];
}

function* mutationsAt(node: Node, ancestors: readonly Node[], text: string): Generator<Change> {
  const { test, argument, callee, init, id, expression } = node as Record<string, unknown> as Record<string, Node | undefined>;
  if (/^(If|Conditional)/.test(node.type) && test) yield ["condition", test, `!(${slice(text, test)})`];
  if (/^(Binary|Logical)Expression$/.test(node.type)) yield* ofOperator(node, text);
  if (node.type === "Literal" && typeof node["value"] === "boolean") yield ["boolean", node, String(!node["value"])];
  if (/^(Return|Throw)Statement$/.test(node.type) && leavesEarly(node, ancestors)) yield ["exit", node, ";"];
  const returnType = ancestors.findLast(({ type }) => /Function/.test(type))?.["returnType"];
  const mayBeUndefined = isNode(returnType) && /undefined|boolean/.test(slice(text, returnType));
  if (node.type === "ReturnStatement" && mayBeUndefined && argument && !/^(undefined|true|false)$/.test(slice(text, argument)))
    yield ["result", argument, "undefined"];
  if (node.type === "ExpressionStatement" && isNode(expression) && isCall(expression, text)) yield ["call", node, ";"];
  if (node.type === "VariableDeclarator" && id && LIMIT_NAME.test(slice(text, id)) && init && /^[\d_. *()+-]+$/.test(slice(text, init)))
    yield ["limit", init, `2 * (${slice(text, init)})`];
  if (node.type === "CallExpression" && callee && /^(limit|wholeNumber)$/.test(slice(text, callee)))
    for (const value of node["arguments"] as Node[])
      if (typeof value["value"] === "number") yield ["limit", value, `2 * ${slice(text, value)}`];
}

function* ofOperator(node: Node, text: string): Generator<Change> {
  const [operator, right] = [String(node["operator"]), node["right"] as Node];
  const start = text.indexOf(operator, (node["left"] as Node).end);
  const opposite = OPPOSITES[operator];
  const isLogic = node.type === "LogicalExpression";
  if (opposite !== undefined) yield [isLogic ? "logic" : "bound", { start, end: start + operator.length }, opposite];
  if (operator === "??" && !/^(undefined|null)$/.test(slice(text, right))) yield ["default", right, "undefined"];
}

/** Whether the statement is the end of an `if` without `else`. */
function leavesEarly(node: Node, ancestors: readonly Node[]): boolean {
  const [outer, parent] = ancestors.slice(-2);
  const isInBlock = parent?.type === "BlockStatement" && (parent["body"] as Node[]).at(-1) === node;
  const branch = isInBlock ? outer : parent;
  return branch?.type === "IfStatement" && !isNode(branch["alternate"]) && branch["consequent"] === (isInBlock ? parent : node);
}

function isCall(expression: Node, text: string): boolean {
  const inner = expression["argument"] ?? expression["expression"];
  if (/^(Await|Unary|Chain)Expression$/.test(expression.type)) return isNode(inner) && isCall(inner, text);
  return expression.type === "CallExpression" && (expression["callee"] as Node).type !== "Super" && !isLogCall(expression, text);
}

/** Chooses mutations from all folders in proportion to their lines. A change of one file leaves the order of the other mutations. */
export function chooseMutations(seed: number, count: number): Mutation[] {
  const excluded = JSON.parse(readFileSync(join(import.meta.dirname, "mutations-excluded.json"), "utf8")) as Description[];
  const excludedIds = new Set(excluded.map(identify));
  const folders: Record<string, { lines: number; chosen: number; mutations: Mutation[] }> = {};
  for (const file of globSync("src/**/*.ts", { cwd: ROOT })) {
    if (file.startsWith("src/page/") || file.endsWith(".d.ts")) continue;
    const text = readFileSync(join(ROOT, file), "utf8");
    const folder = (folders[dirname(file)] ??= { lines: 0, chosen: 0, mutations: [] });
    folder.lines += text.split("\n").length;
    folder.mutations.push(...mutationsOf(file, text).filter((mutation) => !excludedIds.has(identify(mutation))));
  }
  for (const { mutations } of Object.values(folders)) mutations.sort((a, b) => rank(seed, a) - rank(seed, b));
  const chosen: Mutation[] = [];
  while (chosen.length < count) {
    const rest = Object.values(folders).filter(({ mutations }) => mutations.length > 0);
    if (rest.length === 0) break;
    // The folder with the most lines for one more mutation, as when seats are divided among parties.
    const folder = rest.reduce((a, b) => (b.lines / (b.chosen + 0.5) > a.lines / (a.chosen + 0.5) ? b : a));
    const mutation = folder.mutations.shift();
    if (mutation === undefined || chosen.filter(({ file }) => file === mutation.file).length === MAX_IN_FILE) continue;
    chosen.push(mutation);
    folder.chosen++;
  }
  return chosen.sort((a, b) => (a.file === b.file ? a.start - b.start : a.file < b.file ? -1 : 1));
}

function rank(seed: number, mutation: Mutation): number {
  const hash = createHash("sha256").update(`${seed} ${identify(mutation)}`);
  return -Math.log(hash.digest().readUIntBE(0, 6) / 2 ** 48) / WEIGHTS[mutation.kind];
}

const interruption = new AbortController();

/** @returns the exit code, null after the time limit; and the first test that failed */
async function run(
  command: string,
  out: string,
  limitSeconds: number,
  file = "",
): Promise<[code: number | null, test: string | undefined]> {
  const output = openSync(`${out}.output`, "w");
  const env = { ...process.env, MUTATED_FILE: file };
  const child = spawn("sh", ["-c", command], { cwd: ROOT, detached: true, env, stdio: ["ignore", output, output] });
  closeSync(output);
  const end = AbortSignal.any([interruption.signal, AbortSignal.timeout(limitSeconds * 1000)]);
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  end.addEventListener("abort", () => hasEnded() || process.kill(-Number(child.pid), "SIGKILL"));
  const [code] = (await once(child, "exit")) as [number | null];
  const text = stripVTControlCharacters(readFileSync(`${out}.output`, "utf8"));
  return [code, /^ *FAIL +(.*)/m.exec(text)?.[1]];
}

async function attempt({ file, before, after, ...place }: Mutation, command: string, out: string, limit: number): Promise<Result> {
  const path = join(ROOT, file);
  const text = readFileSync(path, "utf8");
  const startedMs = performance.now();
  try {
    writeFileSync(path, text.slice(0, place.start) + place.replacement + text.slice(place.end));
    const [code, test] = await run(command, out, limit, file);
    // Without a failed test, the run says nothing of the mutation, such as one that the kernel has ended.
    const outcome = code === 0 ? "not caught" : code === null ? "timeout" : test === undefined ? "no result" : "caught";
    return { file, before, after, outcome, test, seconds: Math.round((performance.now() - startedMs) / 1000) };
  } finally {
    writeFileSync(path, text);
  }
}

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({ options: { seed: text, count: text, stages: text, command: text, only: text, limit: text, out: text } });
  const { out, stages = "pure server http", seed = "37" } = values;
  const limitSeconds = positive("--limit", values.limit ?? "300");
  const mutations = chooseMutations(positive("--seed", seed), positive("--count", values.count ?? "60"));
  const changes = execFileSync("git", ["status", "--porcelain", "src"], { cwd: ROOT, encoding: "utf8" });
  if (out !== undefined && changes !== "")
    throw new Error(`src has changes, which a mutation would overwrite; commit them first:\n${changes}`);
  const command = values.command ?? `npx vitest run --bail 1 ${stages.replaceAll(/\w+/g, "--project $&")}`;
  for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => interruption.abort());
  const results: Result[] = [];
  if (out !== undefined && existsSync(out)) {
    for (const line of readFileSync(out, "utf8").trim().split("\n")) results.push(JSON.parse(line) as Result);
  } else if (out !== undefined && (await run(command, out, 3 * limitSeconds))[0] !== 0) {
    throw new Error(`the tests fail without a mutation; ${out}.output has their output`);
  }
  console.log(
    "| number | file | kind | before | after | outcome | first failed test | seconds |\n| --- | --- | --- | --- | --- | --- | --- | --- |",
  );
  for (const [index, mutation] of mutations.entries()) {
    const known = results.find((result) => identify(result) === identify(mutation));
    const isAsked = values.only?.split(",").includes(String(index + 1)) ?? true;
    let result = known;
    if (known === undefined && isAsked && out !== undefined && !interruption.signal.aborted) {
      const attempted = await attempt(mutation, command, out, limitSeconds);
      if (!interruption.signal.aborted) appendFileSync(out, `${JSON.stringify((result = attempted))}\n`);
    }
    const { outcome = "", test = "", seconds = "" } = result ?? {};
    const cells = [index + 1, mutation.file, mutation.kind, mutation.before, mutation.after, outcome, test, seconds];
    console.log(`| ${cells.map((cell) => String(cell).replaceAll("|", "\\|").slice(0, 160)).join(" | ")} |`);
  }
  if (out === undefined) console.log(`\nTo run the tests with each: npm run mutations -- --seed ${seed} --out FILE`);
}

if (import.meta.main) await main();
