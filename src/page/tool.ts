import type { ElicitRequestFormParams, ElicitResult } from "@modelcontextprotocol/client";
import { isObject, type JsonObject } from "./form-schema.ts";

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

/** A tool as the server lists it. Only its name is checked. */
export interface ListedTool {
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly annotations: JsonObject;
  readonly inputSchema: unknown;
  readonly outputSchema: unknown;
  /** True if it runs only as a task, which the page does not create. */
  readonly needsTask: boolean;
}

export interface ToolList {
  readonly tools: readonly ListedTool[];
  /** Entries of the list without a name. */
  readonly invalidCount: number;
}

/** Returns the tools of a result of `tools/list`. */
export function listedTools(entries: readonly unknown[]): ToolList {
  const tools: ListedTool[] = [];
  for (const entry of entries) {
    const { name, title, description, inputSchema, outputSchema, execution, ...rest }: JsonObject = isObject(entry) ? entry : {};
    if (typeof name !== "string") continue;
    const annotations = isObject(rest["annotations"]) ? rest["annotations"] : {};
    tools.push({
      name,
      title: text(title) ?? text(annotations["title"]),
      description: text(description),
      annotations,
      inputSchema,
      outputSchema,
      needsTask: isObject(execution) && execution["taskSupport"] === "required",
    });
  }
  return { tools, invalidCount: entries.length - tools.length };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The result of a call, as the server sent it. */
export interface CallResult {
  readonly content: readonly unknown[];
  /** Undefined if there is none. */
  readonly structuredContent: unknown;
  readonly isError: boolean;
}

export function callResultOf(result: unknown): CallResult {
  const { content, structuredContent, isError }: JsonObject = isObject(result) ? result : {};
  return { content: Array.isArray(content) ? content : [], structuredContent, isError: isError === true };
}
