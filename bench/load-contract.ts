// The configurations and results of load processes.

export interface Endpoint {
  port: number;
  path: string;
  /** The bearer token; null to send none. */
  token: string | null;
}

export interface Scenario {
  connections: number;
  resultBytes: number;
  /** The kind of text in a result, by default plain. In JSON, every few characters need an escape. */
  content?: "plain" | "json";
  /** By default, calls belong to a session. A modern call has none (MCP 2026-07-28). */
  era?: "legacy" | "modern";
}

export interface CallsConfig extends Scenario, Endpoint {
  kind: "calls";
  warmupMs: number;
  durationMs: number;
}

export interface CallsResult {
  calls: number;
  callsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  errors: number;
  firstError: string | null;
}

/** Two targets under the load of calls, in turns. */
export interface TurnsConfig {
  kind: "turns";
  sides: readonly [Side, Side];
  /** The number of turns of each side, of `durationMs` each. */
  turns: number;
  /** Before the first turn of each side. */
  warmupMs: number;
  durationMs: number;
}

export interface Side extends Scenario, Endpoint {
  /** The pid of the target, whose CPU time is measured. */
  pid: number;
  /** A path of the target that is read once in each turn, beside the load. */
  readPath?: string;
}

export interface TurnsResult {
  sides: readonly [TurnsSummary, TurnsSummary];
}

export interface TurnsSummary {
  callsPerSecond: number;
  /** The median of the turns. */
  p99Ms: number;
  /** In all processes of the target, without the warm-up. */
  cpuMsPerCall: number;
}

export interface ProgressConfig {
  kind: "progress";
  /** Null for the server alone, over its stdin and stdout. */
  endpoint: Endpoint | null;
  /** The number of notifications in one call. */
  notifications: number;
  warmupMs: number;
  durationMs: number;
}

export interface ProgressResult {
  calls: number;
  /** Arrived notifications, divided by the time from writing a call to the last byte of its response, over all measured calls. */
  notificationsPerSecond: number;
  /** The mean number of notifications per call that did not arrive. */
  lostPerCall: number;
  errors: number;
  firstError: string | null;
}

export interface StreamsConfig extends Endpoint {
  kind: "streams";
  streams: number;
  broadcasts: number;
  /** The pid of the target, whose memory is measured. */
  pid: number;
}

export interface StreamsResult {
  /** Resident memory of the target before the streams, while they are open and idle, and after they are closed. */
  beforeBytes: number;
  openBytes: number;
  closedBytes: number;
  /** The median time from writing the call that causes a broadcast to its arrival on the last stream. */
  broadcastMs: number;
}

export interface SessionsConfig extends Endpoint {
  kind: "sessions";
  sessions: number;
}

export interface SessionsResult {
  sessionsPerSecond: number;
}

export type LoadConfig = CallsConfig | ProgressConfig | SessionsConfig | StreamsConfig | TurnsConfig;

export function parseLoadConfig(json: string): LoadConfig {
  const value: unknown = JSON.parse(json);
  if (!isLoadConfig(value)) throw new Error("not a load configuration");
  return value;
}

// Checks one member only, because both ends are part of the bench.
function isLoadConfig(value: unknown): value is LoadConfig {
  return hasMember(value, "kind");
}

export function isCallsResult(value: unknown): value is CallsResult {
  return hasMember(value, "callsPerSecond");
}

export function isTurnsResult(value: unknown): value is TurnsResult {
  return hasMember(value, "sides");
}

export function isProgressResult(value: unknown): value is ProgressResult {
  return hasMember(value, "notificationsPerSecond");
}

export function isSessionsResult(value: unknown): value is SessionsResult {
  return hasMember(value, "sessionsPerSecond");
}

export function isStreamsResult(value: unknown): value is StreamsResult {
  return hasMember(value, "broadcastMs");
}

function hasMember(value: unknown, name: string): boolean {
  return typeof value === "object" && value !== null && name in value;
}
