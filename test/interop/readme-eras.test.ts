import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER, MODERN_CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { ModernSdkClient } from "../support/modern-sdk-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

interface Caller extends AsyncDisposable {
  toolText(name: string, args?: Readonly<Record<string, unknown>>): Promise<string>;
}

/** The rows of the table: the client, and the kind of revision that it uses with the sidecar. */
const CLIENTS = {
  "with sessions": { connect: (url: string): Promise<Caller> => InteropClient.connect("v1", url, { answer: accept }), uses: "session" },
  "without a session": { connect: (url: string): Promise<Caller> => connectModern(url, "pinned"), uses: "stateless" },
  "that tries both, and uses the newer": { connect: (url: string): Promise<Caller> => connectModern(url, "auto"), uses: "stateless" },
} as const;

/** The columns of the table: the server's command, and the revisions that it speaks. */
const SERVERS = {
  "up to 2025-11-25": { command: CONFORMANCE_SERVER, speaks: ["session"] },
  "of both": { command: MODERN_CONFORMANCE_SERVER, speaks: ["session", "stateless"] },
  "2026-07-28 only": { command: [...MODERN_CONFORMANCE_SERVER, "--reject-legacy"], speaks: ["stateless"] },
} as const;

function accept(): object {
  return { action: "accept", content: { username: "ada", email: "ada@example.com" } };
}

async function connectModern(url: string, negotiation: "pinned" | "auto"): Promise<ModernSdkClient> {
  const client = await ModernSdkClient.connect(url, negotiation, { elicitation: {} });
  client.setRequestHandler("elicitation/create", () => Promise.resolve(accept() as never));
  return client;
}

/** Returns the rows of the README's table, each as its label and its cells by the label of the column. */
async function readTable(): Promise<{ readonly row: string; readonly column: string; readonly cell: string }[]> {
  const readme = await readFile(new URL("../../README.md", import.meta.url), "utf8");
  const lines = readme.split("\n");
  const start = lines.findIndex((line) => line.startsWith("| client ↓"));
  const table = lines.slice(start, lines.indexOf("", start)).map((line) =>
    line
      .split("|")
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
  const [[, ...columns] = [], , ...rows] = table;
  return rows.flatMap(([row = "", ...cells]) => cells.map((cell, index) => ({ row, column: columns[index] ?? "", cell })));
}

describe("the README's table of clients and servers", async () => {
  const sidecars = new Map<string, Sidecar>();
  for (const [column, { command }] of Object.entries(SERVERS)) sidecars.set(column, disposeAfterAll(await Sidecar.start({ command })));
  const sidecarOf = (column: string): Sidecar => sidecars.get(column) as Sidecar;
  const cells = await readTable();

  it("the table has a cell for each client and server", () => {
    const expected = Object.keys(CLIENTS).flatMap((row) => Object.keys(SERVERS).map((column) => [row, column]));
    expect(cells.map(({ row, column }) => [row, column])).toEqual(expected);
  });

  it.each(cells)("a client $row calls and answers a server $column: $cell", async ({ row, column, cell }) => {
    const client = CLIENTS[row as keyof typeof CLIENTS];
    const server = SERVERS[column as keyof typeof SERVERS];
    const sidecar = sidecarOf(column);
    const { sessions } = await readStatus(sidecar);
    await using caller = await client.connect(sidecar.url);
    expect(await caller.toolText("test_simple_text")).toBe("A simple text.");
    expect(await caller.toolText("test_elicitation", { message: "Who?" })).toContain("accept");
    const status = await readStatus(sidecar);
    expect(status.sessions - sessions).toBe(client.uses === "session" ? 1 : 0);
    const speaks: readonly string[] = server.speaks;
    // The era is not found out for sessions.
    const era = speaks.includes("stateless") ? "modern" : "legacy";
    expect(client.uses === "session" ? era : status.stateless?.serverEra).toBe(era);
    expect(cell).toBe(speaks.includes(client.uses) ? "✓" : "✓ translated");
  });
});
