// Combinations of schemas and arguments that are costly to check: both sides are hostile.

import { times } from "../attacker.ts";
import type { ToolList } from "../contract.ts";
import type { Attack, Scene } from "../stage.ts";

const ENFORCE = ["--argument-check", "enforce"];

/** Calls a tool with each of the arguments in turn, and then with the first of them five times at once. */
function calls(name: string, tools: ToolList, argumentTexts: () => readonly string[], tool = "checked"): Attack {
  const run = async ({ attacker }: Scene): Promise<void> => {
    await attacker.open();
    const bodies = argumentTexts().map(
      (args) => `{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"${tool}","arguments":${args}}}`,
    );
    for (const body of bodies) await attacker.post(body);
    await times(5, () => attacker.post(bodies[0]));
  };
  return { name: `arguments: ${name}`, flags: ENFORCE, tools, run };
}

function membersOf(count: number, member: (index: number) => string): string {
  return `{${Array.from({ length: count }, (_, index) => member(index)).join(",")}}`;
}

export const ARGUMENT_ATTACKS: readonly Attack[] = [
  calls("10,000 properties and 40,000 names in another case", "wide-schema", () => [
    membersOf(40_000, (index) => `"PROPERTY_${index}":"x"`),
    membersOf(10_000, (index) => `"Property_${index}":1`),
    membersOf(10_000, (index) => `"property_${index}":1`),
  ]),
  calls("10,000 properties and 200,000 unknown names", "wide-schema", () => [membersOf(200_000, (index) => `"q${index}":1`)]),
  calls("10,000 properties, each twice, escaped", "wide-schema", () => [
    membersOf(20_000, (index) => `"property\\u005f${index >> 1}":"x"`),
    membersOf(20_000, (index) => `"${index % 2 === 0 ? "p" : "\\u0070"}roperty_${index >> 1}":"x"`),
  ]),
  calls("enum of 10,000 objects, 4 MB to compare", "enum-schema", () => [
    `{"value":{"a":[9999,{"b":0}]}}`,
    `{"value":[${'{"a":[1,{"b":1}]},'.repeat(200_000)}1]}`,
  ]),
  calls("uniqueItems of 100,000 objects", "unique-schema", () => [
    `{"value":[${Array.from({ length: 100_000 }, (_, index) => `{"a":${index}}`).join(",")}]}`,
    `{"value":[${Array.from({ length: 3000 }, (_, index) => `[[[{"a":${index}}]]]`).join(",")}]}`,
  ]),
  calls("patternProperties: 1,000 patterns, 20,000 names", "pattern-properties-schema", () => [
    membersOf(20_000, (index) => `"${"abc".repeat(8)}${index}":1`),
  ]),
  calls("a $ref to itself", "reference-schema", () => [
    "{}",
    `{"value":${'{"value":'.repeat(1000)}1${"}".repeat(1000)}}`,
    `{"value":${'{"value":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
  ]),
  calls(
    "a $ref tree, arguments 1,000,000 deep",
    "reference-schema",
    () => [`{"value":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`],
    "tree",
  ),
  calls("oneOf, 2^24 ways", "one-of-schema", () => ['{"value":"x"}', '{"value":"xxxxxx"}', '{"value":5}']),
  calls("a schema 5,000 deep", "deep-schema", () => ["{}", `${'{"a":'.repeat(5000)}1${"}".repeat(5000)}`]),
  calls("objects, 1,300,000 of them", "plain", () => [`{"text":"t","value":[${"{},".repeat(1_300_000)}{}]}`], "strict"),
];

const LISTS: readonly ToolList[] = ["many-tools", "large-tool", "deep-schema", "wide-schema"];
/** Patterns that a rule has to compare with names. */
const NAMES = Array.from({ length: 500 }, (_, index) => `*a*b*${index}*`).join(",");

export const LIST_ATTACKS: readonly Attack[] = LISTS.flatMap((tools) =>
  [[], ENFORCE, ["--allow-tools", `echo,wire_id,trick,${NAMES}`], ["--max-result-bytes", "16384", "--retry", "read-only"]].map((flags) => ({
    name: `list: ${tools}${flags.length === 0 ? "" : `, ${flags[0]?.slice(2)}`}, 20 × tools/list and list_changed`,
    flags,
    tools,
    mayRefuse: true,
    run: async ({ attacker }: Scene) => {
      await attacker.open();
      await times(20, () => attacker.request("tools/list", {}));
      const line = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
      await attacker.callTool("trick", { trick: "tiny", line, count: 1000 });
      await attacker.request("tools/list", { cursor: "c".repeat(100_000) });
      await attacker.callTool("ab".repeat(500), {});
    },
  })),
);
