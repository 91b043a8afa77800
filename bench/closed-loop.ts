// Keeps one request in flight on each connection, and measures the response times.

import { performance } from "node:perf_hooks";
import { echoCall, findEchoFault } from "./tool-calls.ts";
import type { HttpConnection, Outcome } from "./http-connection.ts";
import type { CallsConfig, CallsResult, Scenario } from "./load-contract.ts";
import type { McpSession } from "./mcp-session.ts";
import { percentile } from "./statistics.ts";

/** Errors after which the measurement of a target is stopped. */
const MAX_ERRORS = 1000;
const DRAIN_MS = 15_000;

export async function runClosedLoop(connections: HttpConnection[], session: McpSession, config: CallsConfig): Promise<CallsResult> {
  const loop = new ClosedLoop(session, config);
  const drainDeadlineMs = config.warmupMs + config.durationMs + DRAIN_MS;
  await Promise.race([
    Promise.all(connections.map(async (connection) => loop.drive(connection))),
    new Promise((resolve) => setTimeout(resolve, drainDeadlineMs).unref()),
  ]);
  return loop.result();
}

class ClosedLoop {
  readonly #session: McpSession;
  readonly #scenario: Scenario;
  readonly #durationMs: number;
  readonly #measureFromMs: number;
  readonly #measureUntilMs: number;
  readonly #latenciesMs: number[] = [];
  #lastId = 0;
  #inFlight = 0;
  #errors = 0;
  #firstError: string | null = null;

  constructor(session: McpSession, config: CallsConfig) {
    const { warmupMs, durationMs } = config;
    this.#session = session;
    this.#scenario = config;
    this.#durationMs = durationMs;
    this.#measureFromMs = performance.now() + warmupMs;
    this.#measureUntilMs = this.#measureFromMs + durationMs;
  }

  /** Sends requests on a connection until the measured time is over. Resolves after the last response. */
  async drive(connection: HttpConnection): Promise<void> {
    return new Promise((resolve) => this.#callNext(connection, resolve));
  }

  result(): CallsResult {
    if (this.#inFlight > 0) {
      this.#countError(`${this.#inFlight} calls without a response`, this.#inFlight);
    }
    if (this.#latenciesMs.length === 0) {
      throw new Error(this.#firstError ?? "no call ended within the measured time");
    }
    const sortedMs = Float64Array.from(this.#latenciesMs).sort();
    return {
      calls: sortedMs.length,
      callsPerSecond: (sortedMs.length * 1000) / this.#durationMs,
      p50Ms: percentile(sortedMs, 50),
      p99Ms: percentile(sortedMs, 99),
      errors: this.#errors,
      firstError: this.#firstError,
    };
  }

  #callNext(connection: HttpConnection, onEnd: () => void): void {
    // Ids are unique on all connections, because some targets distinguish calls of a session only by id.
    this.#lastId += 1;
    const id = this.#lastId;
    const request = this.#session.post(echoCall(id, this.#scenario));
    this.#inFlight += 1;
    const sentAtMs = performance.now();
    connection.request(request, (outcome) => {
      const nowMs = performance.now();
      this.#inFlight -= 1;
      this.#record(outcome, id, sentAtMs, nowMs);
      const over = nowMs >= this.#measureUntilMs || this.#errors >= MAX_ERRORS;
      if (over || outcome instanceof Error) onEnd();
      else this.#callNext(connection, onEnd);
    });
  }

  #record(outcome: Outcome, id: number, sentAtMs: number, nowMs: number): void {
    const fault = outcome instanceof Error ? outcome.message : findEchoFault(outcome, id, this.#scenario);
    if (fault !== null) {
      this.#countError(fault, 1);
    } else if (nowMs >= this.#measureFromMs && nowMs < this.#measureUntilMs) {
      this.#latenciesMs.push(nowMs - sentAtMs);
    }
  }

  #countError(fault: string, count: number): void {
    this.#errors += count;
    this.#firstError ??= fault;
  }
}
