import type { JsonObject } from "../jsonrpc/message.ts";
import { isReadOnly } from "./tool-annotations.ts";

/** A longer name is nobody's: it is not kept. */
const MAX_NAME_LENGTH = 1000;

/** The tools that the server of a lane has marked as read-only. Until it has told all of them, none is taken for read-only. */
export class ReadOnlyTools {
  #names: ReadonlySet<string> = new Set();

  has(name: unknown): boolean {
    return typeof name === "string" && this.#names.has(name);
  }

  /** What was known is not known any more. */
  forget(): void {
    this.#names = new Set();
  }

  set(tools: readonly JsonObject[]): void {
    const marks = new Map<string, boolean>();
    for (const { name, annotations } of tools) {
      if (typeof name !== "string" || name.length > MAX_NAME_LENGTH) continue;
      // Of two tools with one name, nobody knows which one is called.
      marks.set(name, isReadOnly(annotations) && marks.get(name) !== false);
    }
    this.#names = new Set(marks.keys().filter((name) => marks.get(name) === true));
  }
}
