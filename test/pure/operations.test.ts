import { describe, expect, it } from "vitest";
import { helpText } from "../../src/cli/help.ts";
import type { ExitKind } from "../../src/observability/counters.ts";
import type { DriftKind } from "../../src/descriptor/drift.ts";
import { ExitCode } from "../../src/cli/exit-code.ts";
import type { UpstreamStatus } from "../../src/upstream/port.ts";
import { LOG_FIELDS } from "../../src/observability/log.ts";
import { readDocument, readDocuments, tableAfter } from "../support/markdown.ts";
import { isLogged } from "../support/messages.ts";

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
  "out-of-memory": true,
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

function page(name: string): ReturnType<typeof readDocument> {
  return readDocument(`docs/operations/${name}.md`);
}

/** Returns the first column of the first table after a heading, without the backticks. */
function firstColumn(name: string, heading: string): string[] {
  return tableAfter(page(name), `# ${heading}\n`).map(([cell = ""]) => cell.replaceAll("`", ""));
}

describe("docs/operations", () => {
  it("has a line for every page in its contents", () => {
    const links = tableAfter(page("README"), "# Operations\n").map(([cell = ""]) => /\((.*)\)/.exec(cell)?.[1]);
    const pages = readDocuments().flatMap(({ path }) => /^docs\/operations\/(?!README)(.*)/.exec(path)?.[1] ?? []);
    expect(new Set(links)).toEqual(new Set(pages));
  });

  it("has a row for every state of a server", () => {
    expect(firstColumn("restarts", "States of the MCP server").toSorted()).toEqual(Object.keys(STATES).toSorted());
  });

  it("has a row for every kind of exit", () => {
    expect(firstColumn("restarts", "How a generation can end").toSorted()).toEqual(Object.keys(KINDS).toSorted());
  });

  it("has a row for every kind of drift", () => {
    expect(firstColumn("pinned-descriptor", "Drift").toSorted()).toEqual(Object.keys(DRIFT_KINDS).toSorted());
  });

  it("has the same exit codes as the program and its help", () => {
    const codes = [...Object.values(ExitCode).map(String), "128 + n"];
    expect(firstColumn("exit-codes", "Exit codes")).toEqual(codes);
    const [, help = ""] = helpText(undefined, true).split("Exit codes:\n");
    expect([...help.matchAll(/^ {2}(\d+(?: \+ n)?) /gm)].map(([, code]) => code)).toEqual(codes);
  });

  it("has a row for every field of a log line", () => {
    const rows = tableAfter(page("logs"), "## Fields\n").flatMap(([names = ""]) =>
      [...names.matchAll(/`(\w+)`/g)].map(([, name = ""]) => name),
    );
    expect(rows.toSorted()).toEqual(LOG_FIELDS.toSorted());
  });

  it.each([
    ["logs", "## Messages\n"],
    ["pinned-descriptor", "such as `readOnlyHint` |\n"],
  ])("has only log messages that the program writes, at their level: %s.md", (name, after) => {
    const rows = tableAfter(page(name), after);
    expect(rows.length).toBeGreaterThan(2);
    const unknown = rows.filter(([message = "", level = ""]) => !isLogged(message.slice(1, -1), level));
    expect(unknown).toEqual([]);
  });
});
