// Checks the tools that a device registers. A tool that clients or model providers would reject must never be listed: their lists fail as a whole.

import { Ajv2020 } from "ajv/dist/2020.js";
import { z } from "zod";
import { firstIssue, type Rejection } from "./messages.ts";
import type { ToolSpec } from "../registry.ts";

/** With the name of the device. The limit of model providers. */
const MAX_NAME_LENGTH = 64;
const MAX_DEPTH = 12;
/** All tools of a device. With 50 devices, a list has at most 3.2 MB. */
const MAX_BYTES_PER_DEVICE = 65_536;
/** All characters that are not shown, as they could hide instructions from people, except line breaks, tabs and parts of emoji. */
const HIDDEN = /[[\p{Cc}\p{Cf}\p{Co}\p{Cs}]--[\n\r\t\u200c\u200d]]/v;

/** As strict as clients of the first SDK generation, which reject a list with any other schema. */
const Parameters = z.looseObject({
  type: z.literal("object"),
  properties: z.record(z.string(), z.looseObject({})).optional(),
  required: z.array(z.string()).optional(),
});
const Spec = z.object({ name: z.string().regex(/^[\w-]+$/), description: z.string().max(4096), parameters: Parameters });

export interface CheckedTools {
  /** By the name that the device uses. */
  readonly accepted: ReadonlyMap<string, ToolSpec>;
  readonly rejected: readonly Rejection[];
}

/** @param allowed patterns that a name must match. */
export function checkTools(device: string, tools: readonly unknown[], allowed: readonly RegExp[], maxTools: number): CheckedTools {
  const accepted = new Map<string, ToolSpec>();
  const rejected: Rejection[] = [];
  // The check of a schema keeps nothing, so one is enough for all.
  const ajv = new Ajv2020({ validateFormats: false, logger: false });
  let bytes = 0;
  for (const tool of tools.slice(0, maxTools)) {
    const { data: spec, error } = Spec.safeParse(tool);
    const name = spec?.name ?? nameOf(tool);
    const problem =
      unsafePartOf(tool, MAX_DEPTH) ??
      (spec === undefined ? firstIssue(error) : accepted.has(name) ? "the name occurs twice" : problemOf(device, spec, allowed, ajv));
    const size = problem === undefined ? Buffer.byteLength(JSON.stringify(tool)) : 0;
    const reason = bytes + size > MAX_BYTES_PER_DEVICE ? `all tools of a device have at most ${MAX_BYTES_PER_DEVICE} bytes` : problem;
    if (reason !== undefined || spec === undefined) rejected.push({ name, reason: reason ?? "" });
    else {
      bytes += size;
      // The schema of the device, not the copy of the parser, which could lack members.
      accepted.set(name, { ...spec, name: `${device}__${name}`, parameters: (tool as ToolSpec).parameters });
    }
  }
  if (tools.length > maxTools)
    rejected.push({ name: "", reason: `a device has at most ${maxTools} tools; ${tools.length - maxTools} ignored` });
  return { accepted, rejected };
}

function problemOf(device: string, { name, parameters }: ToolSpec, allowed: readonly RegExp[], ajv: Ajv2020): string | undefined {
  const maxLength = MAX_NAME_LENGTH - `${device}__`.length;
  if (name.length > maxLength) return `the name has over ${maxLength} characters`;
  if (!allowed.every((pattern) => pattern.test(name))) return "the name is not allowed for this device";
  // `$schema` often names an older draft. Its schema is for the same clients, and a newer one is what they expect.
  const { $schema: _, ...schema } = parameters as Readonly<Record<string, unknown>>;
  if (ajv.validateSchema(schema) !== true) return `parameters: not a valid JSON Schema: ${ajv.errorsText(ajv.errors).slice(0, 200)}`;
  return undefined;
}

/** Finds parts that are valid, but harm programs that read the schema. */
function unsafePartOf(value: unknown, depth: number): string | undefined {
  if (typeof value === "string") return HIDDEN.test(value) ? "a text has control characters" : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return `over ${MAX_DEPTH} levels`;
  for (const [key, part] of Object.entries(value)) {
    if (key === "__proto__") return "a member is named __proto__";
    if (HIDDEN.test(key)) return "a name has control characters";
    // Some clients would load it.
    if (/^\$(?:ref|dynamicRef)$/.test(key) && typeof part === "string" && !part.startsWith("#")) return `${key} leads to another document`;
    const unsafe = unsafePartOf(part, depth - 1);
    if (unsafe !== undefined) return unsafe;
  }
  return undefined;
}

/** Returns the name of a malformed tool. It is sent to its device only. */
function nameOf(tool: unknown): string {
  const { name = "" } = (tool ?? {}) as { readonly name?: unknown };
  return typeof name === "string" ? name.slice(0, MAX_NAME_LENGTH) : "";
}
