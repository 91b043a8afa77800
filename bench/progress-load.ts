// The load of calls with many progress notifications before their response, one call at a time.

import { performance } from "node:perf_hooks";
import { ChildAlone } from "./child-alone.ts";
import { HttpConnection } from "./http-connection.ts";
import type { Endpoint, ProgressConfig, ProgressResult } from "./load-contract.ts";
import { McpSession } from "./mcp-session.ts";
import { sum } from "./statistics.ts";
import { checkProgress, type ProgressCheck, progressCall } from "./tool-calls.ts";

/** Errors after which the measurement of a target is stopped. */
const MAX_ERRORS = 10;

/** A way to call the server. */
interface Carrier {
  /** Calls `onEnd` when the whole response has arrived. The buffer is valid only during `onEnd`. */
  call(id: number, request: string, onEnd: (body: Buffer | Error) => void): void;
  close(): Promise<void>;
}

interface Measured extends ProgressCheck {
  elapsedMs: number;
}

export async function runProgress({ endpoint, notifications, warmupMs, durationMs }: ProgressConfig): Promise<ProgressResult> {
  const carrier: Carrier = endpoint === null ? await ChildAlone.start() : await openSession(endpoint);
  const measureFromMs = performance.now() + warmupMs;
  const measured: Measured[] = [];
  const faults: string[] = [];
  // At least one call is measured, even if it is slow.
  for (let id = 1; performance.now() < measureFromMs + durationMs || measured.length + faults.length === 0; id += 1) {
    const startedAtMs = performance.now();
    const call = await callOnce(carrier, id, notifications);
    if (call.fault !== null) faults.push(call.fault);
    else if (startedAtMs >= measureFromMs) measured.push(call);
    if (faults.length >= MAX_ERRORS) break;
  }
  await carrier.close();
  const [firstError = null] = faults;
  const calls = measured.length;
  if (calls === 0) throw new Error(firstError ?? "no call ended within the measured time");
  const arrived = sum(measured.map((call) => call.arrived));
  return {
    calls,
    notificationsPerSecond: (arrived * 1000) / sum(measured.map((call) => call.elapsedMs)),
    lostPerCall: notifications - arrived / calls,
    errors: faults.length,
    firstError,
  };
}

/** Measures one call. The time does not include the check of its response. */
async function callOnce(carrier: Carrier, id: number, notifications: number): Promise<Measured> {
  return new Promise((resolve) => {
    const startedAtMs = performance.now();
    carrier.call(id, progressCall(id, notifications), (body) => {
      const elapsedMs = performance.now() - startedAtMs;
      resolve({ elapsedMs, ...(body instanceof Error ? { arrived: 0, fault: body.message } : checkProgress(body, id)) });
    });
  });
}

async function openSession(endpoint: Endpoint): Promise<Carrier> {
  const connection = new HttpConnection(endpoint.port);
  const session = await McpSession.open(connection, endpoint);
  return {
    call: (_id, request, onEnd) => {
      connection.request(session.post(request), (outcome) => onEnd(outcome instanceof Error ? outcome : outcome.body));
    },
    close: async () => {
      await session.close(connection);
      connection.close();
    },
  };
}
