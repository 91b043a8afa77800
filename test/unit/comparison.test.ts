import { describe, expect, it } from "vitest";
import { readDocument, tableBehind } from "../support/markdown.ts";

const TARGETS = ["claw", "supergateway", "mcp-proxy"];
const ROWS = tableBehind(readDocument("README.md"), "## How it compares");

/** A row of a recorded chaos run: one cell for each target, in their order. */
function chaos(run: string, label: string): string[] {
  const row = tableBehind(readDocument("docs/CHAOS.md"), `<!-- ${run}: begin`).find(([what]) => plain(what) === label);
  if (row === undefined) throw new Error(`no row "${label}"`);
  return row.slice(1).map(plain);
}

/** A column of a recorded bench table, for each target. */
function bench(heading: string, column: number, isRow: (row: readonly string[]) => boolean = () => true): string[] {
  const document = readDocument("bench/README.md");
  const results = { ...document, text: document.text.slice(document.text.indexOf("\n## Results\n")) };
  const rows = tableBehind(results, `### ${heading}\n`).filter(isRow);
  return TARGETS.map((target) => rows.find(([name]) => name === target)?.[column] ?? `no row of ${target}`);
}

function plain(cell: string | undefined): string {
  return (cell ?? "").replaceAll("**", "");
}

function at16Connections([, connections]: readonly string[]): boolean {
  return connections === "16";
}

const RIGHT = chaos("all", "right answers");

const RECORDED: Readonly<Record<string, readonly string[]>> = {
  "right answers, of requests sent under all faults": chaos("all", "requests sent").map((sent, n) => `${RIGHT[n]} of ${sent}`),
  "requests lost": chaos("all", "lost"),
  "requests in flight at SIGTERM": chaos("surviving", "in flight at SIGTERM"),
  "calls/s, 16 connections, 100 B": bench("Results of 100 bytes", 2, at16Connections),
  "calls/s, 16 connections, 1 MB": bench("Results of 1 MB", 2, at16Connections),
  "progress notifications lost, of 10000": bench("10000 progress notifications in one call", 4),
  "start to ready, ms": bench("Start and memory", 1),
  "memory when idle, MB": bench("Start and memory", 2),
};

describe("the comparison in README.md", () => {
  it("says of each row where it is from", () => {
    expect(ROWS.length).toBeGreaterThan(Object.keys(RECORDED).length);
    expect(ROWS.filter((cells) => !/^[BCDO](?:, [BCDO])*$/.test(cells.at(-1) ?? ""))).toEqual([]);
  });

  it("links each cell of another program that is not measured to where that program says so", () => {
    const cited = ROWS.filter((cells) => cells.at(-1) === "O").flatMap(([what = "", , ...others]) =>
      others.slice(0, -1).map((cell) => ({ what, cell })),
    );
    expect(cited.length).toBeGreaterThan(10);
    expect(cited.filter(({ cell }) => cell !== "" && cell !== "–" && !cell.includes("]["))).toEqual([]);
    // What the chaos run has not found out is cited also where it has found out something.
    const ofTheGoProgram = ROWS.filter((cells) => cells.at(-1)?.includes("O")).map((cells) => cells[4] ?? "");
    expect(ofTheGoProgram.filter((cell) => cell !== "" && !cell.includes("][go]"))).toEqual([]);
    const { text } = readDocument("README.md");
    const targets = new Set(Array.from(text.matchAll(/^\[([\w-]+)\]: https:/gm), ([, name]) => name));
    const used = new Set(Array.from(text.matchAll(/\]\[([\w-]+)\]/g), ([, name]) => name));
    expect(used).toEqual(targets);
  });

  it("has the figures that were recorded, all of them in rows that are compared here", () => {
    for (const [what, figures] of Object.entries(RECORDED)) {
      const cells = ROWS.find(([label]) => label === what)?.slice(1, 4);
      expect({ what, cells }).toEqual({ what, cells: figures });
    }
    const measured = ROWS.filter((cells) => /^[BCD]$/.test(cells.at(-1) ?? "")).map(([what]) => what);
    expect(measured).toEqual(Object.keys(RECORDED));
  });

  it("says what is to be said in favour of the others", () => {
    const { text } = readDocument("README.md");
    expect(text).toContain(`answers ${chaos("all", "– HTTP 200, -32603")[2]} requests with an error`);
    expect(text).toContain(`it loses ${chaos("short-lines", "lost")[1]} request of ${chaos("short-lines", "requests sent")[1]}.`);
  });

  it("says of the others what the chaos run has found that they do not do", () => {
    const { text } = readDocument("docs/CHAOS.md");
    expect(text).toContain("supergateway 4.0.0: a server process for each session: no lane is shared, and a crash ends the session");
    expect(text).toContain("supergateway 4.0.0: no time limit for requests");
    expect(text).toContain("mcp-proxy 6.7.19: one server process for all");
    expect(text).toContain("mcp-proxy 6.7.19: does not start the server again when it has ended");
  });
});
