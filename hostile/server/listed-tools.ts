import type { ToolList } from "../contract.ts";

const MANY_TOOLS = 10_000;
const LARGE_BYTES = 4 * 1024 * 1024;
const WIDE = 10_000;
const DEPTH = 5000;

const PLAIN = ["echo", "wire_id", "trick", "exit", "denied"].map((name) => tool(name, '{"type":"object"}'));
PLAIN.push(tool("strict", '{"type":"object","properties":{"text":{"type":"string"},"force":false}}'));

const LISTS: Readonly<Record<ToolList, () => readonly string[]>> = {
  plain: () => [],
  "many-tools": () => Array.from({ length: MANY_TOOLS }, (_, index) => tool(`tool_${index}`, schemaOf("p", 3))),
  "large-tool": () => [tool("large", `{"type":"object","description":"${"d".repeat(LARGE_BYTES)}"}`)],
  "deep-schema": () => [tool("checked", `${'{"properties":{"a":'.repeat(DEPTH)}{}${"}}".repeat(DEPTH)}`)],
  "wide-schema": () => [tool("checked", schemaOf("property", WIDE))],
  "enum-schema": () => [
    tool("checked", `{"properties":{"value":{"enum":[${items(WIDE, (index) => `{"a":[${index},{"b":${index}}]}`)}]}}}`),
  ],
  "unique-schema": () => [tool("checked", '{"properties":{"value":{"uniqueItems":true}}}')],
  "one-of-schema": () => [tool("checked", `{"$defs":{${oneOfLevels(24)}},"properties":{"value":{"$ref":"#/$defs/l0"}}}`)],
  "pattern-properties-schema": () => [
    tool("checked", `{"patternProperties":{${items(1000, (index) => `"^(a|b|c)*${index}$":{"type":"number"}`)}}}`),
  ],
  "header-tools": () =>
    Array.from({ length: MANY_TOOLS }, (_, index) => tool(`tool_${index}`, `{"properties":{${items(5, headerProperty)}}}`)),
  "poisoned-schema": () => [tool("checked", '{"properties":{"x":{},"i\\\\":{},"x\\u0079":{"const":1}},"i\\\\":1,"\\u0069d":2}')],
};

export function listedTools(list: ToolList): string {
  return `[${[...PLAIN, ...LISTS[list]()].join(",")}]`;
}

/** A parameter that clients repeat in a header (MCP 2026-07-28). */
function headerProperty(index: number): string {
  return `"p_${index}":{"type":"string","x-mcp-header":"P${index}"}`;
}

function tool(name: string, schema: string): string {
  return `{"name":"${name}","inputSchema":${schema}}`;
}

function schemaOf(prefix: string, count: number): string {
  return `{"type":"object","properties":{${items(count, (index) => `"${prefix}_${index}":{"type":"string"}`)}}}`;
}

/** Each level refers to the next one twice. */
function oneOfLevels(depth: number): string {
  const level = (index: number): string =>
    `"l${index}":{"oneOf":[{"$ref":"#/$defs/l${index + 1}"},{"allOf":[{"$ref":"#/$defs/l${index + 1}"},{"minLength":5}]}]}`;
  return `${items(depth, level)},"l${depth}":{"type":"string"}`;
}

function items(count: number, item: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => item(index)).join(",");
}
