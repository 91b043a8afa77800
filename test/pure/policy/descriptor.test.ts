import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Descriptor, formatDescriptor } from "../../../src/policy/descriptor.ts";
import type { JsonObject } from "../../../src/mcp/message.ts";
import { descriptorOf, listedTools, reviewedTool, stored, withKeysReversed } from "../../support/reviewed-tools.ts";

const EMPTY_SCHEMA = { type: "object", properties: {} };
describe("a tool in a descriptor", () => {
  it("a tool keeps name, description, input schema and annotations only", () => {
    const kept = { name: "a", description: "A.", inputSchema: { type: "object", required: ["x"] }, annotations: { readOnlyHint: true } };
    const other = { title: "T", outputSchema: {}, icons: [], execution: {}, _meta: {} };
    expect(stored({ ...other, ...kept })).toStrictEqual(kept);
  });

  it.each([
    ["no members", {}],
    ["members that are null", { description: null, inputSchema: null, annotations: null }],
    ["empty members", { description: " \n", inputSchema: null, annotations: {} }],
  ])("a tool with %s gets a description and a schema", (_what, members) => {
    expect(stored({ name: "a", ...members })).toStrictEqual({ name: "a", description: "MCP tool a.", inputSchema: EMPTY_SCHEMA });
  });
});

describe("a descriptor", () => {
  it("two tools with one name are rejected", () => {
    const tools = [reviewedTool(), reviewedTool({ name: "b" }), reviewedTool()];
    expect(() => formatDescriptor(descriptorOf(tools))).toThrow('tools[0] and tools[2] have the same name, "search"');
  });
});

describe("the text of a descriptor", () => {
  it("the text is indented, ends with a newline, and has the keys of schemas sorted", () => {
    const inputSchema = { type: "object", required: ["b", "a"], properties: { b: { type: "string", enum: ["z", "y"] }, a: {} } };
    const text = formatDescriptor(descriptorOf([reviewedTool({ inputSchema })]));
    expect(text).toMatch(/^\{\n {2}"version": 2,\n/);
    expect(text).toMatch(/\n\}\n$/);
    const [tool] = (JSON.parse(text) as Descriptor).tools;
    expect(JSON.stringify(tool?.inputSchema)).toBe(
      '{"properties":{"a":{},"b":{"enum":["z","y"],"type":"string"}},"required":["b","a"],"type":"object"}',
    );
  });

  it("the text reads back, and is the same for any order of keys", () => {
    fc.assert(
      fc.property(listedTools, (tools) => {
        const text = formatDescriptor(descriptorOf(tools.map(stored)));
        // -0 is written as 0.
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(descriptorOf(tools.map(stored)))));
        const reversed = tools.map((tool) => stored(withKeysReversed(tool) as JsonObject));
        expect(formatDescriptor(descriptorOf(reversed))).toBe(text);
        expect(formatDescriptor(JSON.parse(text) as Descriptor)).toBe(text);
      }),
    );
  });

  it("invisible characters and terminal commands are escaped", () => {
    const description = "a\u009B2Jb\u202Ec\u200Bd\u{E0041}\u2028é😀";
    const text = formatDescriptor(descriptorOf([{ name: "a", description, inputSchema: EMPTY_SCHEMA }]));
    expect(text).toContain(String.raw`"a\u009b2Jb\u202ec\u200bd\udb40\udc41\u2028é😀"`);
    expect(JSON.parse(text)).toMatchObject({ tools: [{ description }] });
  });
});

describe("the size of a descriptor", () => {
  function expectExactLimit(tools: readonly JsonObject[]): void {
    const descriptor = descriptorOf(tools.map(stored));
    const text = formatDescriptor(descriptor);
    const bytes = Buffer.byteLength(text);
    expect(formatDescriptor(descriptor, bytes)).toBe(text);
    expect(() => formatDescriptor(descriptor, bytes - 1)).toThrow(`the descriptor would be longer than ${bytes - 1} bytes`);
  }

  it("a descriptor is written up to exactly the limit", () => {
    fc.assert(fc.property(listedTools, expectExactLimit));
    const values = Array.from({ length: 1000 }, (_, index) => index);
    const dense = [values.map(() => 0), values.map(() => ({})), Object.fromEntries(values.map((value) => [value, 0]))];
    for (const each of dense) expectExactLimit([{ name: "dense", inputSchema: { each } }]);
  });

  it.each<[string, object]>([
    ["many members", Object.fromEntries(Array.from({ length: 800_000 }, (_, key) => [1_000_000 + key, 0]))],
    ["escapes of invisible characters", ["\u200B".repeat(3_000_000)]],
  ])("a schema with %s is rejected", (_what, schema) => {
    const descriptor = descriptorOf([reviewedTool({ inputSchema: { schema } })]);
    expect(() => formatDescriptor(descriptor)).toThrow("the descriptor would be longer than 16777216 bytes");
  });
});
