// What run.ts hands to the load process and what it gets back.

export interface Scenario {
  connections: number;
  resultBytes: number;
}

export interface LoadConfig extends Scenario {
  port: number;
  path: string;
  /** Sent as a bearer token when not null. */
  token: string | null;
  warmupMs: number;
  durationMs: number;
}

export interface LoadResult {
  calls: number;
  callsPerSecond: number;
  p50Ms: number;
  p99Ms: number;
  errors: number;
  firstError: string | null;
}

export function parseLoadConfig(json: string): LoadConfig {
  const value: unknown = JSON.parse(json);
  if (!isLoadConfig(value)) throw new Error("not a load configuration");
  return value;
}

export function parseLoadResult(json: string): LoadResult {
  const value: unknown = JSON.parse(json);
  if (!isLoadResult(value)) throw new Error("not a load result");
  return value;
}

// One member tells them apart: both ends are this bench, so nothing else can come.
function isLoadConfig(value: unknown): value is LoadConfig {
  return typeof value === "object" && value !== null && "connections" in value;
}

function isLoadResult(value: unknown): value is LoadResult {
  return typeof value === "object" && value !== null && "callsPerSecond" in value;
}
