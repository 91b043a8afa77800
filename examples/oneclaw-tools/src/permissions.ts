import { failure, type ToolResult } from "./tool.ts";

/** `unanswered`: without an offered choice, in time. `withdrawn`: with the call. `unable`: the client cannot ask its user. */
export type Answer = "allow" | "deny" | "never" | "unanswered" | "withdrawn" | "unable";

/** Asks the user of one call. */
export interface Asker {
  /** False if other users share the process: an answer then holds for its call only. */
  readonly isOnlyUser: boolean;
  readonly ask: (permissions: readonly string[], tool: string) => Promise<Answer>;
}

const SETTING = "ONECLAW_PERMISSIONS";

/** The permissions of this process. Source: "Android Permission Handling". Answers are remembered until the process ends. */
export class Permissions {
  readonly #granted: Set<string>;
  readonly #never = new Set<string>();
  /** The open questions. Calls that need the same permissions wait for the same one. */
  readonly #asked = new Map<string, Promise<Answer>>();

  constructor(granted: ReadonlySet<string>) {
    this.#granted = new Set(granted);
  }

  /** @returns the refusal, or undefined if all permissions are granted. */
  async require(permissions: readonly string[], tool: string, asker: Asker): Promise<ToolResult | undefined> {
    for (;;) {
      const missing = permissions.filter((each) => !this.#granted.has(each));
      if (missing.length === 0) return undefined;
      if (missing.some((each) => this.#never.has(each))) return refusal(missing, "never");
      const open = asker.isOnlyUser ? this.#asked.get(missing.join()) : undefined;
      const answer = await (open ?? this.#ask(missing, tool, asker));
      if (answer === "allow") return undefined;
      // After a question that was withdrawn with its call, the next call asks.
      if (open === undefined || answer !== "withdrawn") return refusal(missing, answer);
    }
  }

  async #ask(missing: readonly string[], tool: string, asker: Asker): Promise<Answer> {
    const asked = asker.ask(missing, tool);
    if (!asker.isOnlyUser) return asked;
    this.#asked.set(missing.join(), asked);
    const answer = await asked.finally(() => this.#asked.delete(missing.join()));
    for (const each of missing) if (answer === "allow") this.#granted.add(each);
    for (const each of missing) if (answer === "never") this.#never.add(each);
    return answer;
  }
}

function refusal(permissions: readonly string[], answer: Exclude<Answer, "allow">): ToolResult {
  const reasons = {
    deny: "was denied by the user",
    never: `was denied by the user for all calls. Enable it in the settings of the server: ${SETTING}`,
    unanswered: "was not granted, because the client returned no valid answer in time",
    withdrawn: "was not granted, because the call was cancelled",
    unable: `is not granted, and this client cannot ask the user. Enable it in the settings of the server: ${SETTING}`,
  };
  return failure("permission_denied", `Permission ${permissions.join(", ")} ${reasons[answer]}`);
}
