import type { ClientDialect } from "./matrix-client.ts";
import type { ServerDialect } from "./scripted-server.ts";

const CLIENTS: readonly ClientDialect[] = ["2025", "2026", "batch", "sse"];
const SERVERS: readonly ServerDialect[] = ["2025", "2026", "dual"];
const CAPABILITIES = ["none", "all"] as const;
const ENDINGS = ["result", "error", "cancel", "disconnect", "timeout", "crash", "drain", "answered drain"] as const;

/** The kinds of messages, with the endings that each of them has. */
const KINDS = {
  open: ["result", "drain"],
  "tools/list": ENDINGS,
  "tools/call": ENDINGS,
  "tools/call with progress": ENDINGS,
  // While the server is starting again.
  "held tools/call": ["result", "cancel", "disconnect", "timeout", "drain"],
  // Another ending would be that of tools/list.
  "resources/read": ["result", "error"],
  "unknown method": ["error"],
  ping: ["result"],
  "client notification": ["result", "crash"],
  elicitation: ENDINGS.filter((ending) => ending !== "answered drain"),
  // Only the capability and the form of the answer differ from elicitation.
  sampling: ["result", "error"],
  roots: ["result", "error"],
  // A server's log message, by the level of the client; the rest is the ending of its call.
  "log message": ["result"],
  "server's ping": ["result"],
  "list change": ["result", "disconnect", "crash", "drain"],
  "resource update": ["result", "error", "cancel", "disconnect", "crash", "drain"],
} as const satisfies Readonly<Record<string, readonly Ending[]>>;

export type Kind = keyof typeof KINDS;
type Ending = (typeof ENDINGS)[number];

export interface Cell {
  readonly kind: Kind;
  readonly ending: Ending;
  readonly client: ClientDialect;
  readonly capability: (typeof CAPABILITIES)[number];
  readonly server: ServerDialect;
}

interface Rule {
  readonly reason: string;
  readonly excludes: (cell: Cell) => boolean;
}

const QUESTIONS: ReadonlySet<Kind> = new Set(["elicitation", "sampling", "roots"]);

/** The combinations that are left out. The first rule that excludes a cell counts. */
const RULES: readonly Rule[] = [
  {
    reason: "a kind of message has only some endings (KINDS)",
    excludes: ({ kind, ending }) => !(KINDS[kind] as readonly Ending[]).includes(ending),
  },
  {
    reason: "a process of a server of both dialects speaks one of them: what begins it, and what follows it, can differ",
    excludes: ({ server, kind, ending }) =>
      server === "dual" &&
      (!["open", "tools/call", "elicitation", "list change", "resource update"].includes(kind) || !["result", "crash"].includes(ending)),
  },
  {
    reason: "a batch is a POST with requests: only their responses can differ from 2025",
    excludes: ({ client, kind }) =>
      client === "batch" && !["tools/call", "tools/call with progress", "unknown method", "elicitation"].includes(kind),
  },
  {
    reason: "HTTP+SSE differs from 2025 in the place of messages alone",
    excludes: ({ client, kind, ending }) =>
      client === "sse" &&
      (["tools/list", "held tools/call", "resources/read", "ping", "sampling", "roots"].includes(kind) ||
        `${kind} ${ending}` === "open drain"),
  },
  {
    reason: "batch and HTTP+SSE: the dialect of a server decides nothing that 2025 does not show with the same server",
    excludes: ({ client, server }) => server === "dual" && (client === "batch" || client === "sse"),
  },
  {
    reason: "a capability chooses the process, which tools/call shows, and allows questions",
    excludes: ({ kind, client, capability }) =>
      capability === "all" &&
      !QUESTIONS.has(kind) &&
      (client === "batch" ||
        client === "sse" ||
        ["tools/list", "tools/call with progress", "resources/read", "unknown method"].includes(kind)),
  },
  {
    reason: "without the capability nothing is asked that could end",
    excludes: ({ kind, ending, capability }) => QUESTIONS.has(kind) && capability === "none" && !["result", "error"].includes(ending),
  },
  {
    reason: "a client of 2026 has no request in flight while it is asked, and cannot answer with an error",
    excludes: ({ kind, ending, client, capability }) =>
      QUESTIONS.has(kind) && client === "2026" && capability === "all" && ["error", "cancel", "disconnect"].includes(ending),
  },
  {
    reason: "nothing waits for the answer of a client of 2026 to a server of 2026",
    excludes: ({ kind, ending, client, server }) =>
      QUESTIONS.has(kind) && client === "2026" && server === "2026" && ["timeout", "drain"].includes(ending),
  },
  {
    reason: "a client of 2026 cancels a subscription by its disconnection",
    excludes: ({ kind, ending, client }) => kind === "resource update" && client === "2026" && ending === "cancel",
  },
];

/** All cells, kind by kind, and how many each rule leaves out. */
export function listCells(): { readonly cells: readonly Cell[]; readonly leftOut: ReadonlyMap<string, number> } {
  const leftOut = new Map(RULES.map(({ reason }) => [reason, 0]));
  const cells: Cell[] = [];
  for (const kind of Object.keys(KINDS) as Kind[])
    for (const ending of ENDINGS)
      for (const client of CLIENTS)
        for (const capability of CAPABILITIES)
          for (const server of SERVERS) {
            const cell = { kind, ending, client, capability, server };
            const rule = RULES.find(({ excludes }) => excludes(cell));
            if (rule === undefined) cells.push(cell);
            else leftOut.set(rule.reason, (leftOut.get(rule.reason) ?? 0) + 1);
          }
  return { cells, leftOut };
}

export function nameOf({ kind, ending, client, capability, server }: Cell): string {
  return `${kind}, ${ending}: ${client} ${capability === "all" ? "askable " : ""}→ ${server}`;
}
