import { failure, type ToolResult } from "./tool.ts";

/** `unanswered`: in time, or because the client has failed. `withdrawn`: with the call. `unable`: the client cannot ask its user. */
export type Answer = "allow" | "deny" | "never" | "unanswered" | "withdrawn" | "unable";

/** Asks the user of one call. */
export interface Asker {
  /** False if other users share the process: an answer then holds for its call only. */
  readonly isAlone: boolean;
  /** @param missing all permissions that the tool lacks. */
  readonly ask: (permission: string, tool: string, missing: readonly string[]) => Promise<Answer>;
}

const SETTING = "ONECLAW_PERMISSIONS";
const MAX_WAITING_CALLS = 32;

/** The permissions of this process. Source: "Android Permission Handling". Answers are remembered until the process ends. */
export class Permissions {
  readonly #granted: Set<string>;
  readonly #never = new Set<string>();
  /** The open questions. Calls that need the same permission wait for the same one. */
  readonly #asked = new Map<string, Promise<Answer>>();
  #waiting = 0;

  constructor(granted: ReadonlySet<string>) {
    this.#granted = new Set(granted);
  }

  /** @returns the first refusal, or undefined if all permissions are granted. */
  async require(permissions: readonly string[], tool: string, asker: Asker): Promise<ToolResult | undefined> {
    const missing = permissions.filter((each) => !this.#granted.has(each));
    for (const permission of missing) {
      const answer = await this.#answerTo(permission, () => asker.ask(permission, tool, missing), asker.isAlone);
      if (answer !== "allow") return refusal(permission, answer);
    }
    return undefined;
  }

  async #answerTo(permission: string, ask: () => Promise<Answer>, isRemembered: boolean): Promise<Answer | "busy"> {
    if (this.#waiting >= MAX_WAITING_CALLS) return "busy";
    this.#waiting += 1;
    try {
      if (!isRemembered) return await ask();
      for (;;) {
        if (this.#granted.has(permission)) return "allow";
        if (this.#never.has(permission)) return "never";
        const open = this.#asked.get(permission);
        // After a question that was withdrawn with its call, the next call asks.
        const answer = await (open ?? this.#ask(permission, ask));
        if (open === undefined || answer !== "withdrawn") return answer;
      }
    } finally {
      this.#waiting -= 1;
    }
  }

  #ask(permission: string, ask: () => Promise<Answer>): Promise<Answer> {
    const asked = ask()
      .then((answer) => {
        if (answer === "allow") this.#granted.add(permission);
        if (answer === "never") this.#never.add(permission);
        return answer;
      })
      .finally(() => this.#asked.delete(permission));
    this.#asked.set(permission, asked);
    return asked;
  }
}

function refusal(permission: string, answer: Exclude<Answer, "allow"> | "busy"): ToolResult {
  const reasons = {
    deny: "was denied by the user",
    never: `was denied by the user, who is not asked again. Enable it in the settings of the server: ${SETTING}`,
    unanswered: "was not granted, because the client returned no valid answer in time",
    withdrawn: "was not granted, because the call was cancelled",
    unable: `is not granted, and this client cannot ask the user. Enable it in the settings of the server: ${SETTING}`,
    busy: "is not granted, and too many calls wait for the user",
  };
  return failure("permission_denied", `Permission ${permission} ${reasons[answer]}`);
}
