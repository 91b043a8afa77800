import { isOtherCase } from "../json/folded-names.ts";
import { isJsonObject, type JsonObject } from "../jsonrpc/message.ts";
import { findRepeatedName } from "../json/repeated-names.ts";
import { shorten } from "../mux/failures.ts";

/**
 * What a server might read otherwise than it is checked here: a name that occurs twice in one object, and one of the schema's own names in
 * another case, which servers written in Go take for it.
 *
 * @param text in which `args` begin at `argsStart`.
 * @returns one line each; empty where there is nothing.
 */
export function findAmbiguities(tools: readonly JsonObject[], args: unknown, text: string, argsStart: number): readonly string[] {
  if (tools.length === 0 || !isJsonObject(args)) return [];
  const repeated = findRepeatedName(text, argsStart);
  if (repeated !== undefined) return [`${JSON.stringify(shorten(repeated))} occurs twice in one object`];
  for (const { inputSchema } of tools) {
    const properties = isJsonObject(inputSchema) ? inputSchema["properties"] : undefined;
    if (!isJsonObject(properties)) continue;
    for (const name of Object.keys(args)) {
      const meant = Object.hasOwn(properties, name) ? undefined : Object.keys(properties).find((property) => isOtherCase(name, property));
      if (meant !== undefined) return [`${JSON.stringify(shorten(name))} is spelled ${JSON.stringify(shorten(meant))}`];
    }
  }
  return [];
}
