import type { ElicitRequestFormParams, ElicitResult } from "@modelcontextprotocol/client";

/** A question that a tool asks during its call. */
export interface Question {
  readonly key: number;
  readonly message: string;
  readonly schema: ElicitRequestFormParams["requestedSchema"];
  readonly answer: (result: ElicitResult) => void;
}

/** Keeps the open questions. `onChange` gets all of them, oldest first. */
export class OpenQuestions {
  #questions: readonly Question[] = [];
  #nextKey = 0;
  readonly #onChange: (questions: readonly Question[]) => void;

  constructor(onChange: (questions: readonly Question[]) => void) {
    this.#onChange = onChange;
  }

  /** Resolves with the reader's answer. */
  ask({ message, requestedSchema }: ElicitRequestFormParams, signal: AbortSignal): Promise<ElicitResult> {
    return new Promise((resolve) => {
      const key = this.#nextKey++;
      const answer = (result: ElicitResult): void => {
        this.#set(this.#questions.filter((each) => each.key !== key));
        resolve(result);
      };
      this.#set([...this.#questions, { key, message, schema: requestedSchema, answer }]);
      if (signal.aborted) answer({ action: "cancel" });
      else signal.addEventListener("abort", () => answer({ action: "cancel" }), { once: true });
    });
  }

  #set(questions: readonly Question[]): void {
    this.#questions = questions;
    this.#onChange(questions);
  }
}
