// The bars: what each attack has to leave standing.

import type { Result } from "./stage.ts";

const MAX_GAP_MS = 500;

/** Errors that are not the fault of the sidecar while the server cannot serve. */
const EXCUSED = /^(UPSTREAM_.*|OVERLOADED|REQUEST_TIMEOUT)$/;

/** @returns in words, each bar that was missed. */
export function misses({ attack, breaches, end, unhandledErrors, processesLeft, wasCutOff, observation }: Result): string[] {
  const { gapMs, unanswered, calls, isServedAfterwards } = observation;
  const found: string[] = [...breaches];
  if (end !== undefined) found.push(`the sidecar ended: ${end}`);
  for (const line of unhandledErrors) found.push(`unhandled: ${line}`);
  if (processesLeft > 0) found.push(`${processesLeft} processes left`);
  if (wasCutOff) found.push("the attack did not come to its end in time");
  if (gapMs > MAX_GAP_MS) found.push(`/livez was silent for ${gapMs.toFixed(0)} ms`);
  if (unanswered > 0) found.push(`${unanswered} questions to /livez were not answered`);
  if (calls.lost > 0) found.push(`the bystander lost ${calls.lost} calls`);
  if (calls.crossed > 0) found.push(`${calls.crossed} answers were crossed`);
  for (const [code, count] of Object.entries(calls.refused)) {
    if (attack.mayRefuse !== true || !EXCUSED.test(code)) found.push(`the bystander was refused: ${count}× ${code}`);
  }
  if (end === undefined && !isServedAfterwards) found.push("the bystander was not served after the attack");
  return found;
}
