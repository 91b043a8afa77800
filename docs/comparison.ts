// The measured tables of COMPARISON.md, made from the results in CHAOS.md and bench/README.md.

import { readDocument, tableAfter } from "../test/support/markdown.ts";
import { replaceSection } from "./section.ts";

/** One cell for each target, in the order of the recorded tables. */
type Cells = readonly string[];
type Row = readonly [title: string, cells: Cells];

const TARGETS = ["claw", "supergateway", "mcp-proxy"];
const HEADERS = ["claw-mcp-stdio", "supergateway", "mcp-proxy"];
/** The bench also measures a minimal bridge, as the upper bound for the others. */
const BENCH_TARGETS = [...TARGETS, "bare"];
const BENCH_HEADERS = [...HEADERS, "`bare`"];

const SERVER_ENDED = "error: the server process had ended";

/** The rows of CHAOS.md that belong to one outcome of a request. Each request has exactly one outcome. */
const OUTCOMES: Readonly<Record<string, readonly string[]>> = {
  "right result": ["right answers"],
  [SERVER_ENDED]: ["– UPSTREAM_FAILED", "– UPSTREAM_EXITED", "– HTTP 200, -32603"],
  "error: the session had ended with its server process": ["– HTTP 404, -32001"],
  "error: the program was told to stop": ["– SHUTTING_DOWN"],
  "error: the time limit, the size limit, or a session deleted by its client": [
    "– REQUEST_TIMEOUT",
    "– UPSTREAM_RESPONSE_TOO_LARGE",
    "– REQUEST_CANCELLED",
  ],
  "not accepted after SIGTERM": ["refused after SIGTERM"],
  "ended by the client itself: broken connection, deleted session": ["given up by the client itself", "unanswered at the client's DELETE"],
  "HTTP error without a JSON-RPC error": ["errors that no MCP client can read"],
  "wrong answer, or the answer to another client": ["wrong", "crossed between clients"],
  "**lost: no answer**": ["lost"],
};

/** Each run: its section in CHAOS.md, and its title here. */
const RUNS: Readonly<Record<string, string>> = {
  all: "[all faults](CHAOS.md#all-faults), 60 s",
  surviving: "[no fault that ends a server](CHAOS.md#without-the-ends-of-servers), 30 s",
  "short-lines": "[no lines of 64 MB](CHAOS.md#without-lines-of-64-mb), 30 s",
};

export function comparisonMarkdown(): string {
  const sections = {
    outcomes: table(outcomesTable()),
    runs: table(runsTable()),
    recovery: table(recoveryTable()),
    speed: table(speedTable(), BENCH_HEADERS),
  };
  const { path, text } = readDocument("docs/COMPARISON.md");
  let document = text;
  for (const [name, content] of Object.entries(sections)) document = replaceSection({ path, text: document }, name, content);
  return document;
}

/** @throws if the outcomes do not add up to the requests sent: then a row of CHAOS.md belongs to none of them, or to two. */
function outcomesTable(): Row[] {
  const sent = numbers(chaos("all", "requests sent"));
  const outcomes = Object.entries(OUTCOMES).map(([title, labels]) => ({ title, counts: total(labels) }));
  const sums = TARGETS.map((_, target) => outcomes.reduce((sum, { counts }) => sum + (counts[target] ?? 0), 0));
  if (String(sums) !== String(sent)) throw new Error(`the outcomes add up to ${String(sums)}, not to ${String(sent)}`);
  // All of these errors say that a retry is safe; of UPSTREAM_EXITED, some do.
  const [safe = 0] = total(["– UPSTREAM_FAILED"]);
  const marked: Row = ["… of these, marked `retrySafe: true`", [`at least ${grouped(safe)}`, "not marked", "not marked"]];
  const rows = outcomes.flatMap(({ title, counts }): Row[] => {
    const row: Row = [title, counts.map(grouped)];
    return title === SERVER_ENDED ? [row, marked] : [row];
  });
  return [["**requests sent**", sent.map(grouped)], ...rows];
}

/** A code that no target was answered with has no row in CHAOS.md. */
function total(labels: readonly string[]): number[] {
  const rows = labels.map((label) => (label.startsWith("–") ? (findChaos("all", label) ?? TARGETS.map(() => "0")) : chaos("all", label)));
  return TARGETS.map((_, target) => rows.reduce((sum, cells) => sum + Number(cells[target]), 0));
}

function runsTable(): Row[] {
  return Object.entries(RUNS).map(([run, title]) => {
    const [sent, right, lost] = ["requests sent", "right answers", "lost"].map((label) => numbers(chaos(run, label)).map(grouped));
    return [title, TARGETS.map((_, n) => `${right?.[n]} right, **${lost?.[n]} lost**, of ${sent?.[n]}`)];
  });
}

function recoveryTable(): Row[] {
  const ends = chaos("all", "ends of servers: recovered, never").map((cell) => {
    const [recovered = 0, never = 0] = cell.split(", ").map(Number);
    return `${recovered} of ${recovered + never}`;
  });
  const longest = chaos("all", "longest from an end to the next right answer");
  const inFlight = chaos("surviving", "in flight at SIGTERM");
  return [
    ["server exits after which a client was served again", ends],
    ["longest time from such an exit to the next right result", longest.map((cell) => (cell === "-" ? "never" : cell))],
    ["answers that belong to no request", chaos("all", "answers to nothing")],
    ["server processes left behind", chaos("all", "processes left")],
    ["requests in flight at SIGTERM", inFlight.map((cell) => cell.replace("untyped", "HTTP errors"))],
    ["kinds of faults that occurred", chaos("all", "kinds of faults committed")],
  ];
}

function speedTable(): Row[] {
  const calls = (heading: string, connections: string, column: number): Cells =>
    bench(heading, column, (row) => row[1] === connections).map((cell) => grouped(Number(cell)));
  return [
    ["calls/s, 1 connection, results of 100 bytes", calls("Results of 100 bytes", "1", 2)],
    ["calls/s, 16 connections, results of 100 bytes", calls("Results of 100 bytes", "16", 2)],
    ["calls/s, 1 connection, results of 1 MB", calls("Results of 1 MB", "1", 2)],
    ["calls/s, 16 connections, results of 1 MB", calls("Results of 1 MB", "16", 2)],
    ["progress notifications lost, of 10,000 in a call", bench("10000 progress notifications in one call", 4)],
    ["start until its health check answers 200, ms", bench("Start and memory", 1)],
    ["memory when idle, without the server, MB", bench("Start and memory", 2)],
    ["most memory under this load, without the server, MB", bench("Start and memory", 3)],
  ];
}

/** A row of a run that CHAOS.md has recorded. */
function chaos(run: string, label: string): Cells {
  const cells = findChaos(run, label);
  if (cells === undefined) throw new Error(`docs/CHAOS.md has no row "${label}"`);
  return cells;
}

function findChaos(run: string, label: string): Cells | undefined {
  const row = tableAfter(readDocument("docs/CHAOS.md"), `<!-- ${run}: begin`).find(([title]) => plain(title) === label);
  return row?.slice(1).map(plain);
}

/** A column of a table that bench/README.md has recorded. */
function bench(heading: string, column: number, isWanted: (row: readonly string[]) => boolean = () => true): Cells {
  const document = readDocument("bench/README.md");
  const results = { ...document, text: document.text.slice(document.text.indexOf("\n## Results\n")) };
  const rows = tableAfter(results, `### ${heading}\n`).filter(isWanted);
  return BENCH_TARGETS.map((target) => {
    const cell = rows.find(([name]) => name === target)?.[column];
    if (cell === undefined) throw new Error(`bench/README.md has no row of ${target} under "${heading}"`);
    return cell;
  });
}

function plain(cell = ""): string {
  return cell.replaceAll("**", "");
}

function numbers(cells: Cells): number[] {
  return cells.map(Number);
}

function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

function table(rows: readonly Row[], headers: readonly string[] = HEADERS): string {
  return [["", ...headers], ["---", ...headers.map(() => "---:")], ...rows.map(([title, cells]) => [title, ...cells])]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}
