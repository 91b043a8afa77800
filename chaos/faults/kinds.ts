import { CRASH_LOOP_FAULT, type ServerEraOption, TOOL_FAULTS, type ToolFault } from "../contract.ts";

/** The faults that the driver commits itself, outside of the server. */
const DRIVER_FAULTS = {
  sigkill: "SIGKILL to a server",
  sigstop: "SIGSTOP to a server, later SIGCONT",
  [CRASH_LOOP_FAULT]: "a server is killed, and its successors exit at their start",
  disconnect_storm: "half of the clients break all their connections",
  burst: "a client sends 300 requests at once",
  come_back: "a client loses a stream during a call, and resumes it",
  delete_during_calls: "a client ends its session while its calls are in flight",
  era_change: "a server is killed, and servers that start later speak other protocol revisions",
  replica_restart: "SIGTERM to a replica, and another one starts",
  replica_kill: "SIGKILL to a replica and its servers, and another one starts",
} as const;

/** All kinds of faults with their descriptions. In addition, each run ends with a SIGTERM under load. */
export const FAULT_KINDS = { ...TOOL_FAULTS, ...DRIVER_FAULTS } as const;

export type DriverFault = keyof typeof DRIVER_FAULTS;
export type FaultKind = ToolFault | DriverFault;

export const ALL_FAULT_KINDS = Object.keys(FAULT_KINDS) as FaultKind[];

/** The faults with which a server exits. */
export const ENDING_FAULTS: ReadonlySet<FaultKind> = new Set(["exit_cleanly", "crash", "kill_itself", "last_words", "half_line_and_crash"]);

/** The faults of one of several replicas. */
const REPLICA_FAULTS: ReadonlySet<FaultKind> = new Set(["replica_restart", "replica_kill"]);

/** The faults after which the server must be restarted. */
const LASTING_FAULTS: ReadonlySet<FaultKind> = new Set([...ENDING_FAULTS, ...REPLICA_FAULTS, "sigkill", "crash_loop", "era_change"]);

/** Returns those of the faults that are possible with a server of this era, and with this number of replicas. */
export function faultsOf(era: ServerEraOption, kinds: readonly FaultKind[] = ALL_FAULT_KINDS, replicas = 1): FaultKind[] {
  return kinds.filter((kind) => (kind !== "era_change" || era === "changing") && (!REPLICA_FAULTS.has(kind) || replicas > 1));
}

/** The named values of --faults. */
export const FAULT_GROUPS: Readonly<Record<string, readonly FaultKind[]>> = {
  all: ALL_FAULT_KINDS,
  surviving: ALL_FAULT_KINDS.filter((kind) => !LASTING_FAULTS.has(kind)),
  "short-lines": ALL_FAULT_KINDS.filter((kind) => kind !== "long_answer" && kind !== "long_noise"),
};
