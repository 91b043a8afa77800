import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { helpText } from "../../src/config/describe.ts";
import type { ExitKind } from "../../src/counters.ts";
import type { DriftKind } from "../../src/descriptor/drift.ts";
import { ExitCode } from "../../src/exit-code.ts";
import type { UpstreamStatus } from "../../src/mux/upstream.ts";

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

const OPERATIONS = readFileSync(new URL("../../docs/OPERATIONS.md", import.meta.url), "utf8");

/** The first column of the table in a section, without the quotes. */
function firstColumn(heading: string): string[] {
  const section = OPERATIONS.split("\n## ").find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("| "));
  return rows.slice(2).map((line) => (line.split(" | ")[0] ?? "").replace("| ", "").replaceAll("`", ""));
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
});
