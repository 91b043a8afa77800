import * as fc from "fast-check";
import type { JsonObject } from "../../src/mcp/message.ts";
import { type Descriptor, type DescriptorTool, toDescriptorTool } from "../../src/policy/descriptor.ts";

/** Any key, including those with a meaning in JavaScript or in a descriptor. */
const key = fc.oneof(
  fc.string({ maxLength: 6, unit: "grapheme" }),
  fc.constantFrom("__proto__", "constructor", "type", "properties", "10", "9", "maximum", "a b", "<&>"),
);
const scalar = fc.oneof(
  fc.string({ maxLength: 8, unit: "binary" }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.constantFrom(1.0, 2 ** 53, -0),
  fc.boolean(),
  fc.constant(null),
);

/** Objects as JSON.parse makes them: `__proto__` is a member like any other. */
function jsonObject(value: fc.Arbitrary<unknown>): fc.Arbitrary<JsonObject> {
  return fc.array(fc.tuple(key, value), { maxLength: 4 }).map((members) => Object.fromEntries(members));
}

const { value: jsonValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof({ maxDepth: 3 }, scalar, fc.array(tie("value"), { maxLength: 3 }), jsonObject(tie("value"))),
}));

/** A tool as a server may list it, with members that descriptors lack, and possibly without optional ones. */
export const listedTool: fc.Arbitrary<JsonObject> = fc.record(
  {
    name: fc.string({ minLength: 1, maxLength: 8 }).filter((name) => name.trim() === name),
    description: fc.option(fc.string({ maxLength: 20, unit: "grapheme" })),
    inputSchema: fc.option(jsonObject(jsonValue)),
    annotations: fc.option(jsonObject(jsonValue)),
    title: fc.string(),
    outputSchema: jsonObject(jsonValue),
    _meta: jsonObject(jsonValue),
  },
  { requiredKeys: ["name"] },
);

export const listedTools = fc.uniqueArray(listedTool, { selector: (tool) => tool["name"], maxLength: 8 });

export function withKeysReversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withKeysReversed);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, member]): [string, unknown] => [name, withKeysReversed(member)]);
  return Object.fromEntries(members.toReversed());
}

/** A tool as it was reviewed. */
export function reviewedTool(tool: Partial<DescriptorTool> = {}): DescriptorTool {
  return { name: "search", description: "Searches.", inputSchema: { type: "object", properties: {} }, ...tool };
}

/** Returns a value with this many nested objects. */
export function nested(levels: number): unknown {
  return JSON.parse(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`);
}

export function descriptorOf(tools: readonly DescriptorTool[]): Descriptor {
  return {
    version: 2,
    description: "search MCP stdio tools.",
    mcp: { transport: "streamable_http", path: "/mcp" },
    tools,
    "x-claw-discovery": { command: "npx", args: ["-y", "some-mcp"], tool_count: tools.length },
  };
}

/** Returns a listed tool as a descriptor has it. */
export function stored(tool: JsonObject): DescriptorTool {
  return toDescriptorTool(tool, "the tool");
}
