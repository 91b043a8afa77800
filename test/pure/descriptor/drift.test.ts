import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readDescription } from "../../../src/descriptor/descriptor.ts";
import { changedParts, compareTools, type DriftKind, fingerprintOf, type ToolDrift } from "../../../src/descriptor/drift.ts";
import type { JsonObject } from "../../../src/protocol/message.ts";
import { cpuMsOf } from "../../support/cpu-time.ts";
import { listedTool, listedTools, nested, reviewedTool, stored, withKeysReversed } from "../../support/reviewed-tools.ts";

const SCHEMA = { type: "object", properties: { limit: { type: "integer", maximum: 100 } }, required: ["limit", "query"] };
const REVIEWED = reviewedTool({ inputSchema: SCHEMA, annotations: { readOnlyHint: true } });

function kindsBy(drifts: readonly ToolDrift[]): Record<string, readonly DriftKind[]> {
  return Object.fromEntries(drifts.map(({ name, kinds }) => [name, kinds]));
}

function compareOne(live: JsonObject): readonly DriftKind[] {
  return compareTools([REVIEWED], [{ ...REVIEWED, ...live }])[0]?.kinds ?? [];
}

/** Returns the one drift of these tools. */
function onlyDrift(live: readonly JsonObject[]): ToolDrift {
  const [drift, ...others] = compareTools([REVIEWED], live);
  if (drift === undefined || others.length > 0) throw new Error("not one drift");
  return drift;
}

describe("the comparison of tools", () => {
  it("tools as reviewed have no drift, in any order of tools and keys", () => {
    fc.assert(
      fc.property(listedTools, (tools) => {
        const live = tools.map((tool): JsonObject => ({
          ...(withKeysReversed(tool) as JsonObject),
          title: "T",
          outputSchema: {},
          _meta: { a: 1 },
        }));
        expect(compareTools(tools.map(stored), live.toReversed())).toEqual([]);
      }),
    );
  });

  it("other escapes and spellings of numbers are no drift", () => {
    const reviewed = stored(
      JSON.parse(
        String.raw`{"name":"a","description":"\u003cb\u003e","inputSchema":{"maximum":1,"x":1e+21,"y":9007199254740992}}`,
      ) as JsonObject,
    );
    const live = JSON.parse(
      `{"name":"a","description":"<b>","inputSchema":{"maximum":1.0,"x":1000000000000000000000,"y":9007199254740993}}`,
    ) as JsonObject;
    expect(compareTools([reviewed], [live])).toEqual([]);
  });

  it.each<[string, JsonObject, DriftKind]>([
    ["a letter more in the description", { description: "Searches.." }, "description"],
    ["another case", { description: "searches." }, "description"],
    ["a character that cannot be seen", { description: "Searches.\u200b" }, "description"],
    ["the same letter, composed otherwise", { description: "Se\u0301arches." }, "description"],
    ["no description", { description: undefined }, "description"],
    ["a description that is no string", { description: { text: "Searches." } }, "description"],
    ["another limit", { inputSchema: { ...SCHEMA, properties: { limit: { type: "integer", maximum: 1000 } } } }, "schema"],
    ["a limit as text", { inputSchema: { ...SCHEMA, properties: { limit: { type: "integer", maximum: "100" } } } }, "schema"],
    ["a field more", { inputSchema: { ...SCHEMA, additionalProperties: true } }, "schema"],
    ["a field less", { inputSchema: { type: "object", properties: SCHEMA.properties } }, "schema"],
    ["a list in another order", { inputSchema: { ...SCHEMA, required: ["query", "limit"] } }, "schema"],
    ["a list as an object", { inputSchema: { ...SCHEMA, required: { 0: "limit", 1: "query" } } }, "schema"],
    [
      "an inherited name in place of a field",
      { inputSchema: JSON.parse('{"type":"object","properties":{},"__proto__":["limit"]}') as object },
      "schema",
    ],
    ["no schema", { inputSchema: undefined }, "schema"],
    ["a schema that is no object", { inputSchema: "object" }, "schema"],
    ["a schema that no stack would hold", { inputSchema: nested(200_000) }, "schema"],
    ["another annotation", { annotations: { readOnlyHint: false } }, "annotations"],
    ["an annotation more", { annotations: { readOnlyHint: true, openWorldHint: false } }, "annotations"],
    ["no annotations", { annotations: undefined }, "annotations"],
    ["annotations that are no object", { annotations: true }, "annotations"],
  ])("the comparison finds %s", (_what, live, kind) => {
    expect(compareOne(live)).toEqual([kind]);
  });

  it("added annotations are found, but not empty ones", () => {
    const reviewed = reviewedTool();
    expect(compareTools([reviewed], [{ ...reviewed, annotations: { readOnly: true } }])[0]?.kinds).toEqual(["annotations"]);
    expect(compareTools([reviewed], [{ ...reviewed, annotations: {} }])).toEqual([]);
  });

  it("every change of a tool, and new, missing and duplicate tools are named", () => {
    const [same, gone, twice] = ["m", "z", "b"].map((name) => reviewedTool({ name }));
    const live = [
      { ...REVIEWED, description: "New.", inputSchema: {}, annotations: {} },
      { name: "new" },
      { name: "new" },
      { ...twice },
      { ...twice },
      { ...same },
    ];
    expect(compareTools([REVIEWED, ...[same, gone, twice].filter((tool) => tool !== undefined)], [...live, { name: "a" }])).toMatchObject([
      { name: "a", kinds: ["new"] },
      { name: "b", kinds: ["duplicate"] },
      { name: "new", kinds: ["new", "duplicate"] },
      { name: "search", kinds: ["description", "schema", "annotations"] },
      { name: "z", kinds: ["missing"] },
    ]);
  });

  it("a name with white space around it is another name", () => {
    expect(kindsBy(compareTools([REVIEWED], [{ ...REVIEWED, name: " search" }]))).toEqual({ " search": ["new"], search: ["missing"] });
  });

  it("a tool without a name is ignored", () => {
    expect(compareTools([], [{}, { name: 7 }, { name: "" }, { name: null }])).toEqual([]);
  });

  it("every single change is found, and nothing else", () => {
    const change = fc.constantFrom<DriftKind>("new", "missing", "duplicate", "description", "schema", "annotations");
    fc.assert(
      fc.property(
        fc.uniqueArray(listedTool, { selector: (tool) => tool["name"], minLength: 1, maxLength: 6 }),
        fc.nat(),
        change,
        (tools, at, kind) => {
          const index = at % tools.length;
          const tool = tools[index] ?? {};
          const name = tool["name"] as string;
          const others = tools.toSpliced(index, 1);
          const changed: Record<DriftKind, readonly JsonObject[]> = {
            new: tools,
            missing: others,
            duplicate: [...tools, tool],
            description: [...others, { ...tool, description: `${String(readDescription(tool, name))}!` }],
            schema: [...others, { ...tool, inputSchema: { ...stored(tool).inputSchema, "added here": 1 } }],
            annotations: [...others, { ...tool, annotations: { ...stored(tool).annotations, "added here": 1 } }],
          };
          const reviewed = kind === "new" ? others : tools;
          expect(kindsBy(compareTools(reviewed.map(stored), changed[kind]))).toEqual({ [name]: [kind] });
        },
      ),
    );
  });

  it("ten thousand tools are compared in less than a second", () => {
    const tools = Array.from({ length: 10_000 }, (_, index) => reviewedTool({ name: `tool-${index}`, inputSchema: SCHEMA }));
    const live = tools.map((tool, index): JsonObject => ({ ...tool, description: index % 2 === 0 ? "Other." : tool.description }));
    expect(cpuMsOf(() => expect(compareTools(tools, live)).toHaveLength(5000))).toBeLessThan(1000);
  });
});

describe("the changed parts of a tool", () => {
  it("only reviewed parts are compared", () => {
    expect(changedParts(REVIEWED, { ...REVIEWED })).toEqual([]);
    expect(changedParts(REVIEWED, {})).toEqual(["description", "schema", "annotations"]);
  });
});

describe("the fingerprint of a drift", () => {
  it("the fingerprint does not depend on key order or unreviewed members", () => {
    const live = { ...REVIEWED, inputSchema: { ...SCHEMA, minProperties: 1 } };
    const again = { title: "T", ...(withKeysReversed(live) as JsonObject) };
    expect(fingerprintOf(onlyDrift([again]))).toBe(fingerprintOf(onlyDrift([live])));
  });

  it("the fingerprint differs if the server's tool does", () => {
    const lives: JsonObject[][] = [
      [],
      [{ ...REVIEWED }, { ...REVIEWED }],
      [{ ...REVIEWED, description: "A." }],
      [{ ...REVIEWED, description: "B." }],
      [{ ...REVIEWED, inputSchema: {} }],
      [{ ...REVIEWED, inputSchema: { a: 1 } }],
      [{ ...REVIEWED, inputSchema: { a: 2 } }],
      [{ ...REVIEWED, annotations: {} }],
      [{ ...REVIEWED, annotations: { readOnlyHint: 1 } }],
      [{ ...REVIEWED, inputSchema: nested(200_000) }],
    ];
    expect(new Set(lives.map((live) => fingerprintOf(onlyDrift(live)))).size).toBe(lives.length);
  });
});
