import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { type Adapter, ADAPTERS } from "./adapters.ts";
import { ERA_VARIABLE, SERVER_ERAS, type ServerEraOption } from "./contract.ts";
import { ALL_FAULT_KINDS, FAULT_GROUPS, type FaultKind, faultsOf } from "./faults/kinds.ts";

export interface Options {
  readonly adapters: readonly Adapter[];
  readonly seed: number;
  readonly durationMs: number;
  readonly kinds: readonly FaultKind[];
  /** The value of --faults, for the command that repeats the run. */
  readonly faults: string;
  readonly serverEra: ServerEraOption;
  /** The number of processes of the wrapper, among which each request goes to the next one. */
  readonly replicas: number;
  /** The file for the output of the wrappers, for the search for a cause. */
  readonly logFile: string | undefined;
  /** The file for all results as JSON. */
  readonly jsonFile: string | undefined;
  /** The document for the tables. They replace the section that is named like the value of --faults, or `replicas`. */
  readonly markdownFile: string | undefined;
}

export function parseOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      against: { type: "string", default: "claw" },
      seconds: { type: "string", default: "60" },
      seed: { type: "string", default: String(randomInt(1_000_000)) },
      faults: { type: "string", default: "all" },
      "server-era": { type: "string", default: "legacy" },
      replicas: { type: "string", default: "1" },
      log: { type: "string" },
      json: { type: "string" },
      markdown: { type: "string" },
    },
  });
  const serverEra = SERVER_ERAS.find((era) => era === values["server-era"]);
  if (serverEra === undefined) throw new Error(`--server-era must be one of ${SERVER_ERAS.join(", ")}`);
  const replicas = Math.floor(positive("--replicas", values.replicas));
  if (replicas > 1 && values.against !== "claw") throw new Error("--replicas is for claw only");
  // A session ends when its private server changes its era, which replicas could not be told from an error.
  if (replicas > 1 && serverEra === "changing") throw new Error("--replicas is for servers of one era");
  return {
    adapters: values.against.split(",").map((name) => inEra(findAdapter(name), serverEra)),
    seed: positive("--seed", values.seed),
    durationMs: positive("--seconds", values.seconds) * 1000,
    kinds: faultsOf(serverEra, selectKinds(values.faults), replicas),
    faults: values.faults,
    serverEra,
    replicas,
    logFile: values.log,
    jsonFile: values.json,
    markdownFile: values.markdown,
  };
}

export function positive(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${option} must be a number above 0`);
  return value;
}

/** Returns the wrapper with a server of this era. */
export function inEra(adapter: Adapter, era: ServerEraOption): Adapter {
  return { ...adapter, environment: { ...adapter.environment, [ERA_VARIABLE]: era } };
}

function findAdapter(name: string): Adapter {
  const adapter = ADAPTERS.find((candidate) => candidate.name === name);
  if (adapter === undefined) throw new Error(`unknown wrapper ${name}; expected one of ${ADAPTERS.map((each) => each.name).join(", ")}`);
  return adapter;
}

/** @param text the name of a group, or names of kinds. */
function selectKinds(text: string): readonly FaultKind[] {
  const group = FAULT_GROUPS[text];
  if (group !== undefined) return group;
  return text.split(",").map((name) => {
    const kind = ALL_FAULT_KINDS.find((candidate) => candidate === name);
    if (kind === undefined)
      throw new Error(`unknown fault ${name}; expected one of ${[...Object.keys(FAULT_GROUPS), ...ALL_FAULT_KINDS].join(", ")}`);
    return kind;
  });
}
