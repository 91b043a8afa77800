import type { Manifest } from "../manifest.ts";
import type { Usage } from "./format.ts";

export interface TracedCall {
  /** `service.tool`; as the model has written it if there is no such tool. */
  readonly name: string;
  readonly service: string | null;
  readonly arguments: unknown;
  readonly result: unknown;
  readonly latency_ms: number;
  /** Of a call that was not made again. */
  readonly original_round?: number;
  readonly duplicate_count?: number;
}

export interface TracedRound {
  /** From 1. */
  readonly round: number;
  readonly tool_calls: readonly TracedCall[];
  readonly round_usage: Usage;
}

/** The line of one request. */
export interface Trace {
  readonly agent: string;
  readonly path: string;
  readonly status: number;
  readonly ending: string;
  readonly manifest_present: boolean;
  readonly tools_count: number;
  readonly duration_ms: number;
  readonly tool_trace: readonly TracedRound[];
}

/** Begins the line of a request in the history of sessions. @returns the function that completes it. */
export function startTrace(
  onTrace: (line: string) => void,
  warn: (text: string) => void,
  request: Pick<Trace, "agent" | "path">,
  manifest: Manifest | undefined,
): (end: Pick<Trace, "status" | "ending" | "tool_trace">) => void {
  const startMs = performance.now();
  const facts = { manifest_present: manifest !== undefined, tools_count: manifest?.tools.length ?? 0 };
  return ({ status, ending, tool_trace }) => {
    const trace: Trace = { ...request, status, ending, ...facts, duration_ms: Math.round(performance.now() - startMs), tool_trace };
    try {
      onTrace(`${JSON.stringify({ time: new Date().toISOString(), ...trace })}\n`);
    } catch (error) {
      // A full disk, or arguments that are too deep for JSON.
      warn(`the trace of a request cannot be written: ${(error as Error).message}`);
    }
  };
}
