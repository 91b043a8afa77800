// What the commands of bench, chaos and hostile share.

import { randomInt } from "node:crypto";

/** Lets exit handlers run, which end all processes, when the command is interrupted. */
export function endWithSignals(): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
}

export function positive(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${option} must be a number above 0`);
  return value;
}

export function someSeed(): string {
  return String(randomInt(1, 1_000_000));
}
