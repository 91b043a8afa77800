// Combinations of schemas and arguments that are costly to check: both sides are hostile.

import { times } from "../attacker.ts";
import type { ToolList } from "../contract.ts";
import type { Attack } from "../stage.ts";

const ENFORCE = ["--argument-check", "enforce"];

function list(count: number, item: (index: number) => string): string {
  return Array.from({ length: count }, (_, index) => item(index)).join(",");
}

/** Arguments for a tool whose schema is in the list of this name. */
const CHECKS: readonly (readonly [name: string, tools: ToolList, argumentTexts: () => readonly string[]])[] = [
  [
    "10,000 properties and 200,000 names, unknown or in another case",
    "wide-schema",
    () => [
      `{${list(40_000, (index) => `"PROPERTY_${index}":"x"`)}}`,
      `{${list(10_000, (index) => `"property_${index}":1`)}}`,
      `{${list(200_000, (index) => `"q${index}":1`)}}`,
      `{${list(20_000, (index) => `"${index % 2 === 0 ? "p" : "\\u0070"}roperty_${index >> 1}":"x"`)}}`,
    ],
  ],
  ["enum of 10,000 objects, 4 MB to compare", "enum-schema", () => [`{"value":[${'{"a":[1,{"b":1}]},'.repeat(200_000)}1]}`]],
  ["uniqueItems of 100,000 objects", "unique-schema", () => [`{"value":[${list(100_000, (index) => `{"a":${index}}`)}]}`]],
  [
    "patternProperties: 1,000 patterns, 20,000 names",
    "pattern-properties-schema",
    () => [`{${list(20_000, (index) => `"${"abc".repeat(8)}${index}":1`)}}`],
  ],
  ["oneOf, 2^24 ways", "one-of-schema", () => ['{"value":"x"}', '{"value":"xxxxxx"}', '{"value":5}']],
];

/** Patterns that a rule has to compare with names. */
const NAMES = list(500, (index) => `*a*b*${index}*`);
const LISTS: readonly ToolList[] = ["many-tools", "large-tool", "deep-schema", "wide-schema"];
const RULES: Readonly<Record<string, readonly string[]>> = {
  "no rules": [],
  "argument-check": ENFORCE,
  "allow-tools": ["--allow-tools", `echo,wire_id,trick,${NAMES}`],
  "max-result-bytes": ["--max-result-bytes", "16384", "--retry", "read-only"],
};

export const ARGUMENT_ATTACKS: readonly Attack[] = [
  ...CHECKS.map(([name, tools, argumentTexts]): Attack => ({
    name: `arguments: ${name}`,
    flags: ENFORCE,
    tools,
    run: async ({ attacker }) => {
      const bodies = argumentTexts().map(
        (args) => `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"checked","arguments":${args}}}`,
      );
      for (const body of bodies) await attacker.post(body);
      await times(5, () => attacker.post(bodies[0]));
    },
  })),
  ...LISTS.flatMap((tools) =>
    Object.entries(RULES).map(([rule, flags]): Attack => ({
      name: `list: ${tools}, ${rule}, 20 × tools/list and list_changed`,
      flags,
      tools,
      mayRefuse: true,
      run: async ({ attacker }) => {
        await times(20, () => attacker.request("tools/list", {}));
        const line = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
        await attacker.callTool("trick", { trick: "tiny", line, count: 1000 });
        await attacker.request("tools/list", { cursor: "c".repeat(100_000) });
        await attacker.callTool("ab".repeat(500), {});
      },
    })),
  ),
];
