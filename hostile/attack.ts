import type { Random } from "../chaos/random.ts";
import type { Attacker } from "./attacker.ts";
import type { ServerEra, ToolList } from "./contract.ts";

export interface Attack {
  /** The group and a description: the row of the table. */
  readonly name: string;
  /** Flags of the sidecar. */
  readonly flags?: readonly string[];
  /** Further environment variables of the sidecar. */
  readonly environment?: Readonly<Record<string, string>>;
  /** The tools that the server lists; by default a few plain ones. */
  readonly tools?: ToolList;
  /** The protocol era of the server; by default one with sessions. */
  readonly era?: ServerEra;
  /** True if the bystander has no session either. */
  readonly isStateless?: boolean;
  /** True if the server itself cannot serve the bystander for a time. Errors that report this are then allowed. */
  readonly mayRefuse?: boolean;
  /** The memory budget. The peak of memory must not exceed it by more than the base. */
  readonly budgetBytes?: number;
  /** True if the peak of memory of this attack is the base for those with a budget. */
  readonly isLoadBase?: boolean;
  readonly run: (scene: Scene) => Promise<void>;
}

export interface Scene {
  readonly attacker: Attacker;
  /** Twenty further clients, each with a token of its own. */
  readonly others: readonly Attacker[];
  readonly random: Random;
  /** Creates a file that servers read; see contract.ts. */
  readonly setSwitch: (name: string, text: string) => void;
  readonly removeSwitch: (name: string) => void;
  /** Starts another sidecar with the same tokens, which ends with the attack. @returns a function that creates its clients. */
  readonly startReplica: (setup?: Pick<Attack, "flags" | "environment" | "era">) => Promise<(token?: string) => Attacker>;
  /** Returns the number of server processes that are running. */
  readonly countServers: () => number;
}
