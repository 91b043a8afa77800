import type { JsonObject } from "../../protocol/message.ts";
import { isReadOnly } from "./tool-annotations.ts";

/** Longer names are ignored. */
const MAX_NAME_LENGTH = 1000;

/** The tools that the server has marked as read-only. Empty until all tools are listed. */
export class ReadOnlyTools {
  #names: ReadonlySet<string> = new Set();

  has(name: unknown): boolean {
    return typeof name === "string" && this.#names.has(name);
  }

  /** Removes all tools. */
  forget(): void {
    this.#names = new Set();
  }

  set(tools: readonly JsonObject[]): void {
    const marks = new Map<string, boolean>();
    for (const { name, annotations } of tools) {
      if (typeof name !== "string" || name.length > MAX_NAME_LENGTH) continue;
      // If two tools have the same name, it is unknown which one a call reaches.
      marks.set(name, isReadOnly(annotations) && marks.get(name) !== false);
    }
    this.#names = new Set(marks.keys().filter((name) => marks.get(name) === true));
  }
}
