// The bars that the sidecar must meet in each attack.

import type { Result } from "./stage.ts";

const MAX_GAP_MS = 500;

/** Codes of errors that are allowed while the server cannot serve. */
const EXCUSED = /^(UPSTREAM_.*|OVERLOADED|REQUEST_TIMEOUT)$/;

/** @returns a description of each missed bar. */
export function misses({ attack, breaches, end, unhandledErrors, processesLeft, wasCutOff, observation, basePeakBytes }: Result): string[] {
  const { gapMs, unanswered, calls, isServedAfterwards, peakRssBytes } = observation;
  const found: string[] = [...breaches];
  if (end !== undefined) found.push(`the sidecar ended: ${end}`);
  for (const line of unhandledErrors) found.push(`unhandled: ${line}`);
  if (processesLeft > 0) found.push(`${processesLeft} processes left`);
  if (wasCutOff) found.push("the attack did not end in time");
  if (gapMs > MAX_GAP_MS) found.push(`/livez did not respond for ${gapMs.toFixed(0)} ms`);
  if (unanswered > 0) found.push(`${unanswered} requests to /livez got no response`);
  if (attack.budgetBytes !== undefined && basePeakBytes !== undefined) {
    const excessBytes = peakRssBytes - attack.budgetBytes - basePeakBytes;
    if (excessBytes > 0) found.push(`the memory exceeds the budget and the base by ${inMb(excessBytes)} MB`);
  }
  if (calls.lost > 0) found.push(`the bystander lost ${calls.lost} calls`);
  if (calls.crossed > 0) found.push(`${calls.crossed} responses were crossed`);
  for (const [code, count] of Object.entries(calls.refused)) {
    if (attack.mayRefuse !== true || !EXCUSED.test(code)) found.push(`the bystander's calls were rejected: ${count}× ${code}`);
  }
  if (end === undefined && !isServedAfterwards) found.push("the bystander was not served after the attack");
  return found;
}

function inMb(bytes: number): string {
  return (bytes / 1e6).toFixed(0);
}
