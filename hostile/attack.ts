import type { Random } from "../chaos/random.ts";
import type { Attacker } from "./attacker.ts";
import type { ToolList } from "./contract.ts";

export interface Attack {
  /** The group and what is done: the row of the table. */
  readonly name: string;
  /** For the sidecar. */
  readonly flags?: readonly string[];
  /** What the server lists; by default a few plain tools. */
  readonly tools?: ToolList;
  /** The server itself cannot serve the bystander for a time: errors that say so are no loss. */
  readonly mayRefuse?: boolean;
  readonly run: (scene: Scene) => Promise<void>;
}

export interface Scene {
  readonly attacker: Attacker;
  readonly random: Random;
  /** Creates a file that the servers look for when they start; see contract.ts. */
  readonly setSwitch: (name: string, text: string) => void;
  readonly removeSwitch: (name: string) => void;
}
