import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { helpText } from "../../src/config/describe.ts";
import type { ExitKind } from "../../src/counters.ts";
import type { DriftKind } from "../../src/descriptor/drift.ts";
import { ERROR_CATALOG } from "../../src/errors.ts";
import { ExitCode } from "../../src/exit-code.ts";
import type { UpstreamStatus } from "../../src/upstream/port.ts";
import { LOG_FIELDS } from "../../src/observability/log.ts";
import { readDocument, ROOT, tableBehind } from "../support/markdown.ts";

/** The compiler keeps these complete. */
const STATES: Readonly<Record<UpstreamStatus["state"], true>> = {
  starting: true,
  ready: true,
  "backing-off": true,
  failed: true,
  stopping: true,
};
const KINDS: Readonly<Record<ExitKind, true>> = {
  "clean-exit": true,
  crash: true,
  signal: true,
  "spawn-failed": true,
  "handshake-refused": true,
  "handshake-timeout": true,
  "pipe-closed": true,
  hung: true,
  "tools-not-listed": true,
  defect: true,
  stopped: true,
};

const DRIFT_KINDS: Readonly<Record<DriftKind, true>> = {
  new: true,
  missing: true,
  duplicate: true,
  description: true,
  schema: true,
  annotations: true,
};

const OPERATIONS = readDocument("docs/OPERATIONS.md");

/** The first column of the first table in a section, without the quotes. */
function firstColumn(heading: string): string[] {
  return tableBehind(OPERATIONS, `## ${heading}\n`).map(([cell = ""]) => cell.replaceAll("`", ""));
}

describe("docs/OPERATIONS.md", () => {
  it("has a row for every state", () => {
    expect(firstColumn("States of the MCP server").toSorted()).toEqual(Object.keys(STATES).toSorted());
  });

  it("has a row for every kind of end", () => {
    expect(firstColumn("How a generation can end").toSorted()).toEqual(Object.keys(KINDS).toSorted());
  });

  it("has a row for every way in which a tool can differ from a descriptor", () => {
    expect(firstColumn("Pinned descriptor").toSorted()).toEqual(Object.keys(DRIFT_KINDS).toSorted());
  });

  it("has a row for every exit code, as the help has", () => {
    const codes = [...Object.values(ExitCode).map(String), "128 + n"];
    expect(firstColumn("Exit codes of the sidecar")).toEqual(codes);
    const [, help = ""] = helpText().split("Exit codes: ");
    expect(
      help
        .split(/,\s/)
        .map((part) => /^(\d+( \+ n)?) /.exec(part)?.[1])
        .filter((code) => code !== undefined),
    ).toEqual(codes);
  });

  it("has a row for every field of a log line", () => {
    const rows = tableBehind(OPERATIONS, "The other fields:").flatMap(([names = ""]) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name),
    );
    expect(rows.toSorted()).toEqual(LOG_FIELDS.toSorted());
  });

  it("names only error codes that there are", () => {
    const rows = tableBehind(OPERATIONS, "what an operator should look at:");
    const codes = rows.flatMap(([names = ""]) => names.split(", "));
    expect(codes).toContain("UPSTREAM_FAILED");
    expect(codes.filter((code) => !(code in ERROR_CATALOG))).toEqual([]);
  });

  it("names only log lines that the program writes, at their level", () => {
    const sources = globSync("src/**/*.ts", { cwd: ROOT }).map((path) => readFileSync(join(ROOT, path), "utf8"));
    const rows = tableBehind(OPERATIONS, "What to look for");
    expect(rows.length).toBeGreaterThan(10);
    for (const [message = "", level = ""] of rows) {
      const text = message.slice(1, -1).replaceAll(/\W/g, String.raw`\$&`);
      const pattern = new RegExp(`\\.${level}\\((?:(?!\\);)[\\s\\S])*?"${text}"`);
      expect(
        sources.some((source) => pattern.test(source)),
        `${level} ${message}`,
      ).toBe(true);
    }
  });

  it.each(["bench/README.md", "docs/CHAOS.md"])("sizes by figures that were recorded in %s", (recorded) => {
    const figures = { "bench/README.md": ["90.2", "41.1", "325.3", "26186", "399.0", "261"], "docs/CHAOS.md": ["286 MB"] }[recorded] ?? [];
    const sizing = OPERATIONS.text.split(/^## /m).find((text) => text.startsWith("Sizing")) ?? "";
    const source = readDocument(recorded).text;
    expect(figures.filter((figure) => !sizing.includes(figure) || !source.includes(figure))).toEqual([]);
  });
});
