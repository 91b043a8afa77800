import { send } from "./http-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";

interface Load {
  readonly requestsInFlight: number;
  readonly waiting: number;
  readonly queuedBytes: number;
}

export interface Status {
  readonly version: string;
  readonly replica: string;
  readonly uptimeMs: number;
  readonly state: string;
  readonly pid: number | null;
  readonly generation: number;
  readonly restarts: number;
  readonly lanes: {
    readonly shared: Load;
    readonly private: Load & { readonly servers: number };
    readonly modern: Load & { readonly servers: number };
    readonly asking: Readonly<Record<string, Load & { readonly servers: number }>>;
  };
  readonly asksSince: string | null;
  readonly sessions: number;
  readonly openStreams: number;
  readonly rssBytes: number;
  readonly memory: { readonly limitBytes: number; readonly usedBytes: number } & Readonly<Record<string, number>>;
  readonly counters: {
    readonly requests: { readonly accepted: number; readonly refused?: Readonly<Record<string, number>> };
    readonly answers: { readonly results: number; readonly failures?: Readonly<Record<string, number>> };
    readonly exits: object;
    readonly dropped: object;
    readonly policy: { readonly truncatedResults: number };
    readonly http: {
      readonly readersCutOff: number;
      readonly connectionsDropped: number;
      readonly responses: Readonly<Record<string, number>>;
    };
  };
  /** Absent if requests without a session are not served. */
  readonly stateless?: {
    readonly serverEra: string;
    readonly requests: number;
    readonly clients: number;
    readonly subscriptions: number;
    readonly asks?: {
      readonly servers: number;
      readonly parked: { readonly now: number; readonly expired: number; readonly refused: number };
      readonly unattributed: number;
    };
  };
  readonly policy?: { readonly descriptor: object };
}

export async function readStatus(sidecar: Pick<RunningSidecar, "origin">, headers: Readonly<Record<string, string>> = {}): Promise<Status> {
  const { status, body } = await send(`${sidecar.origin}/status`, { method: "GET", headers });
  if (status !== 200) throw new Error(`/status: ${status} ${body}`);
  return JSON.parse(body) as Status;
}

/** Returns an event id of a sidecar's process. @param position such as `s1-0`. */
export async function eventIdAt(sidecar: RunningSidecar, position: string): Promise<string> {
  return `${position}-${(await readStatus(sidecar)).replica}`;
}

export interface Readiness {
  readonly httpStatus: number;
  readonly status: string;
  readonly state: string;
  readonly pid: number | null;
  readonly generation: number;
  readonly restarts: number;
  readonly lastExit: {
    readonly generation: number;
    readonly exitCode: number | null;
    readonly signal: string | null;
    readonly kind: string;
    readonly reason: string;
    readonly at: string;
    readonly stderrTail: readonly string[];
    readonly stderrLastLine: string | null;
  } | null;
  readonly nextRetryAt: string | null;
}

export async function readReadiness(sidecar: RunningSidecar): Promise<Readiness> {
  const { status, body } = await send(`${sidecar.origin}/readyz`, { method: "GET" });
  return { httpStatus: status, ...(JSON.parse(body) as Omit<Readiness, "httpStatus">) };
}

export async function waitForGeneration(sidecar: RunningSidecar, generation: number): Promise<void> {
  await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === generation);
}
