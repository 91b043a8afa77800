// Checks the tools that a device registers. A tool that clients or model providers would reject must never be listed: their lists fail as a whole.
// So only a plain subset of JSON Schema is accepted. It means the same in all drafts, and cannot refer to anything.

import { z } from "zod";
import { firstIssue, type Rejection } from "./messages.ts";
import type { ToolSpec } from "../registry.ts";

/** With the name of the device. The limit of model providers. */
const MAX_NAME_LENGTH = 64;
const MAX_LEVELS = 8;
const MAX_REASON_LENGTH = 200;
/** Characters that are not shown could hide instructions from people. Line breaks, tabs and single parts of emoji cannot. */
const HIDDEN =
  /[[\p{C}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]--[\n\r\t\p{Join_Control}]--\uFE0E--\uFE0F]|\p{Join_Control}(?:\p{Join_Control}|\uFE0E|\uFE0F)|(?:\uFE0E|\uFE0F){2}/v;

const Text = z.string().refine((text) => !HIDDEN.test(text), "a text has hidden characters");
const PROPERTY_NAME = /^[\w.-]{1,64}$/;
const isSet = (all: readonly unknown[]): boolean => new Set(all).size === all.length;
const Type = z.enum(["object", "array", "string", "number", "integer", "boolean", "null"]);
const isValue = (value: unknown): boolean =>
  typeof value === "string" ? !HIDDEN.test(value) : value === null || typeof value === "boolean" || Number.isFinite(value);
const Value = z.unknown().refine(isValue, "only a text, a number, a boolean or null is allowed");
/** One check for all, as each of thousands could be an error. */
const areNames = (all: readonly unknown[]): boolean =>
  all.every((name) => typeof name === "string" && PROPERTY_NAME.test(name)) && isSet(all);
const areValues = (all: readonly unknown[]): boolean => all.length > 0 && all.every(isValue) && isSet(all);

/** @param parts the schema of the schemas within. */
function objectKeywords(parts: z.ZodType) {
  return {
    title: Text.optional(),
    description: Text.optional(),
    properties: z.record(z.string().regex(PROPERTY_NAME), parts).optional(),
    required: z.array(z.unknown()).refine(areNames, "only different names of properties are allowed").optional(),
    additionalProperties: z.union([z.boolean(), parts]).optional(),
  };
}

function schemaOf(levels: number): z.ZodType {
  const parts = levels === 1 ? z.never(`over ${MAX_LEVELS} levels`) : schemaOf(levels - 1);
  const keywords = (names: readonly string[], value: z.ZodType): object => Object.fromEntries(names.map((name) => [name, value]));
  return z
    .strictObject({
      ...objectKeywords(parts),
      type: z.union([Type, z.array(Type).min(1).refine(isSet)]),
      items: parts,
      anyOf: z.array(parts).min(1),
      enum: z.array(z.unknown()).refine(areValues, "only different texts, numbers, booleans and null are allowed"),
      const: Value,
      default: Value,
      format: z.string().regex(/^[a-z-]{1,30}$/),
      ...keywords(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], z.number()),
      ...keywords(["minLength", "maxLength", "minItems", "maxItems"], z.int().nonnegative()),
    })
    .partial();
}

const Parameters = z.strictObject({
  ...objectKeywords(schemaOf(MAX_LEVELS)),
  type: z.literal("object"),
  // It names a draft, which does not matter here. Some clients would load it.
  $schema: Text.optional().transform(() => undefined),
});
const Spec = z.object({ name: z.string().regex(/^[\w-]+$/), description: Text.max(4096), parameters: Parameters });

/** For the name of a malformed tool, which is sent to its device only. */
const Named = z.object({ name: z.string() }).catch({ name: "" });

/** @param allowed patterns that a name must match. */
export function checkTools(device: string, tools: readonly unknown[], allowed: readonly RegExp[], maxTools: number) {
  const accepted = new Map<string, ToolSpec>();
  const rejected: Rejection[] = [];
  const maxLength = MAX_NAME_LENGTH - `${device}__`.length;
  for (const tool of tools.slice(0, maxTools)) {
    const { data: spec, error } = Spec.safeParse(tool);
    if (spec === undefined) {
      rejected.push({ name: Named.parse(tool).name.slice(0, MAX_NAME_LENGTH), reason: firstIssue(error).slice(0, MAX_REASON_LENGTH) });
      continue;
    }
    const { name } = spec;
    if (name.length > maxLength) rejected.push({ name, reason: `the name has over ${maxLength} characters` });
    else if (!allowed.every((pattern) => pattern.test(name))) rejected.push({ name, reason: "the name is not allowed for this device" });
    else if (accepted.has(name)) rejected.push({ name, reason: "the name occurs twice" });
    else accepted.set(name, { ...spec, name: `${device}__${name}` });
  }
  const ignored = tools.length - maxTools;
  if (ignored > 0) rejected.push({ name: "", reason: `a device has at most ${maxTools} tools; ${ignored} ignored` });
  return { accepted, rejected };
}
