import { parseArgs } from "node:util";
import { DEFAULT_TARGET_NAMES, TARGETS, type Target } from "./targets.ts";

export interface Options {
  targets: Target[];
  durationMs: number;
  rounds: number;
  /** The file for all results as JSON; null to write none. */
  jsonFile: string | null;
}

export function parseOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: "string", default: "1" },
      rounds: { type: "string", default: "6" },
      targets: { type: "string", default: DEFAULT_TARGET_NAMES.join(",") },
      json: { type: "string" },
    },
  });
  return {
    targets: values.targets.split(",").map(findTarget),
    durationMs: positive("--seconds", values.seconds) * 1000,
    rounds: Math.ceil(positive("--rounds", values.rounds)),
    jsonFile: values.json ?? null,
  };
}

function findTarget(name: string): Target {
  const target = TARGETS.find((candidate) => candidate.name === name);
  if (target === undefined) {
    const known = TARGETS.map((candidate) => candidate.name).join(", ");
    throw new Error(`unknown target ${name}; expected one of ${known}`);
  }
  return target;
}

function positive(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < 1000)) throw new Error(`${option} must be a number above 0`);
  return value;
}
