// What the bench hands to a load process and what it gets back.

export interface Endpoint {
  port: number;
  path: string;
  /** Sent as a bearer token when not null. */
  token: string | null;
}

export interface Scenario {
  connections: number;
  resultBytes: number;
  /** What the text of a result is; plain if it is not given. In JSON, every few characters need an escape. */
  content?: "plain" | "json";
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

export interface ProgressConfig {
  kind: "progress";
  /** Null: the child alone, over its stdin and stdout. */
  endpoint: Endpoint | null;
  /** Of one call. */
  notifications: number;
  warmupMs: number;
  durationMs: number;
}

export interface ProgressResult {
  calls: number;
  /** Those that arrived, in the time from writing a call to the last byte of its answer, over all measured calls. */
  notificationsPerSecond: number;
  /** Those that did not arrive, of one call; the mean. */
  lostPerCall: number;
  errors: number;
  firstError: string | null;
}

export interface StreamsConfig extends Endpoint {
  kind: "streams";
  streams: number;
  broadcasts: number;
  /** The target's process, whose memory is read. */
  pid: number;
}

export interface StreamsResult {
  /** Resident memory of the target: before, with all streams open and idle, and after they were closed. */
  beforeBytes: number;
  openBytes: number;
  closedBytes: number;
  /** From writing the call that causes a broadcast to its arrival on the last stream; the median. */
  broadcastMs: number;
}

export type LoadConfig = CallsConfig | ProgressConfig | StreamsConfig;

export function parseLoadConfig(json: string): LoadConfig {
  const value: unknown = JSON.parse(json);
  if (!isLoadConfig(value)) throw new Error("not a load configuration");
  return value;
}

// One member tells them apart: both ends are this bench, so nothing else can come.
function isLoadConfig(value: unknown): value is LoadConfig {
  return hasMember(value, "kind");
}

export function isCallsResult(value: unknown): value is CallsResult {
  return hasMember(value, "callsPerSecond");
}

export function isProgressResult(value: unknown): value is ProgressResult {
  return hasMember(value, "notificationsPerSecond");
}

export function isStreamsResult(value: unknown): value is StreamsResult {
  return hasMember(value, "broadcastMs");
}

function hasMember(value: unknown, name: string): boolean {
  return typeof value === "object" && value !== null && name in value;
}
