import { findRepeatedName, foldCase } from "../json/names.ts";
import { isJsonObject, type JsonObject } from "../protocol/message.ts";
import { quoted } from "./arguments/value-path.ts";

/** The names of a schema's properties. Finds the names that a server may take for one of them. */
export class PropertyNames {
  readonly #properties: JsonObject;
  /** The first property of each case-folded name. */
  readonly #byFoldedName = new Map<string, string>();

  constructor(inputSchema: unknown) {
    const properties = isJsonObject(inputSchema) ? inputSchema["properties"] : undefined;
    this.#properties = isJsonObject(properties) ? properties : {};
    for (const name of Object.keys(this.#properties)) {
      const folded = foldCase(name);
      if (!this.#byFoldedName.has(folded)) this.#byFoldedName.set(folded, name);
    }
  }

  /** Returns the property whose name differs from `name` only in case, unless a property has exactly this name. */
  otherCaseOf(name: string): string | undefined {
    return this.#byFoldedName.size === 0 || Object.hasOwn(this.#properties, name) ? undefined : this.#byFoldedName.get(foldCase(name));
  }
}

/**
 * Finds a name that a server may read differently. It occurs twice in an object, or matches a property except for case, as in Go.
 *
 * @param args the value of `argsText`, an object.
 * @returns a line about the first such name; undefined if there is none.
 */
export function findAmbiguity(schemas: readonly PropertyNames[], args: JsonObject, argsText: string): string | undefined {
  const repeated = findRepeatedName(argsText, 0);
  if (repeated !== undefined) return `${quoted(repeated)} occurs twice in one object`;
  const names = Object.keys(args);
  for (const properties of schemas) {
    for (const name of names) {
      const meant = properties.otherCaseOf(name);
      if (meant !== undefined) return `${quoted(name)} must be spelled ${quoted(meant)}`;
    }
  }
  return undefined;
}
