import { expect, it } from "vitest";
import { CONFORMANCE_SERVER, MODERN_CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { ModernSdkClient } from "../support/modern-sdk-client.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

interface Caller extends AsyncDisposable {
  toolText(name: string, args?: Readonly<Record<string, unknown>>): Promise<string>;
}

/** Each client, and the kind of revision that it uses with the sidecar. */
const CLIENTS = {
  "with sessions": { connect: (url: string): Promise<Caller> => InteropClient.connect("v1", url, { answer: accept }), uses: "session" },
  "without a session": { connect: (url: string): Promise<Caller> => connectModern(url, "pinned"), uses: "stateless" },
  "that tries both, and uses the newer": { connect: (url: string): Promise<Caller> => connectModern(url, "auto"), uses: "stateless" },
} as const;

/** Each server's command, and the revisions that it speaks. */
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

const sidecars = new Map<string, Sidecar>();
for (const [column, { command }] of Object.entries(SERVERS)) sidecars.set(column, disposeAfterAll(await Sidecar.start({ command })));
const pairs = Object.entries(CLIENTS).flatMap(([row, client]) =>
  Object.entries(SERVERS).map(([column, server]) => ({ row, client, column, server })),
);

it.each(pairs)("a client $row calls and answers a server $column", async ({ client, column, server }) => {
  const sidecar = sidecars.get(column) as Sidecar;
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
});
