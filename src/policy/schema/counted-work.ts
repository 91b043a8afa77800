import { _, type Ajv, type KeywordCxt } from "ajv";
import type { Ajv2020 } from "ajv/dist/2020.js";
import { isEqualJson } from "../../descriptor/json-difference.ts";
import type { JsonObject } from "../../jsonrpc/message.ts";
import { canonicalText } from "./unique-items.ts";
import type { WorkLimit } from "./work-limit.ts";

/** Where ajv goes over the items or members of a value, or may come back to where it was. */
const GOES_OVER_VALUE = [
  "$ref",
  "$dynamicRef",
  "items",
  "additionalItems",
  "contains",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
  "minProperties",
  "maxProperties",
];
/** Where it goes over the characters of a text. */
const GOES_OVER_TEXT = ["minLength", "maxLength"];
const CHARACTERS_PER_STEP = 8;
/** Where it goes over the members of the schema. */
const GOES_OVER_SCHEMA = ["properties", "required", "dependentRequired", "dependencies", "dependentSchemas", "anyOf", "oneOf", "allOf"];
/** Where each part of the schema has to do with each other one in the code that ajv writes. */
const WRITES_PAIRS = ["dependentRequired", "dependencies", "patternProperties", "anyOf", "oneOf"];
/** A pair takes half a microsecond. */
const STEPS_OF_PAIR = 50;
const CHARACTERS_OF_VALUE_PER_STEP = 8;

/** Has the generated code count what it does, and the generation as well; ajv itself has no limit. */
export function bounded(compiler: Ajv | Ajv2020, work: WorkLimit): Ajv | Ajv2020 {
  replaceCode(compiler, GOES_OVER_VALUE, ({ gen, data }) => {
    gen.code(_`${gen.scopeValue("func", { ref: work.spendOn })}(${data})`);
  });
  replaceCode(compiler, GOES_OVER_TEXT, ({ gen, data }) => {
    const spendOnText = (text: string): void => work.spend(1 + text.length / CHARACTERS_PER_STEP);
    gen.code(_`${gen.scopeValue("func", { ref: spendOnText })}(${data})`);
  });
  replaceCode(compiler, GOES_OVER_SCHEMA, ({ gen, schema }) => {
    gen.code(_`${gen.scopeValue("func", { ref: work.spend })}(${partsOf(schema)})`);
  });
  replaceCode(compiler, WRITES_PAIRS, ({ schema }) => work.spend(STEPS_OF_PAIR * partsOf(schema) ** 2));
  replaceCode(compiler, ["additionalProperties"], ({ parentSchema }) => {
    work.spend(STEPS_OF_PAIR * partsOf((parentSchema as JsonObject)["patternProperties"]) ** 2);
  });
  // Those of ajv compare with each value of the schema in turn, however large they are, and call what a client calls `valueOf`.
  replaceTest(compiler, "enum", (values) => {
    if (!Array.isArray(values) || values.length === 0) throw new Error("enum must have non-empty array");
    return valueTest(values as unknown[], work);
  });
  replaceTest(compiler, "const", (value) => valueTest([value], work));
  // That of ajv compares each item with each other one.
  compiler.removeKeyword("uniqueItems");
  compiler.addKeyword({
    keyword: "uniqueItems",
    type: "array",
    schemaType: "boolean",
    validate: (isUnique: boolean, items: readonly unknown[]) => !isUnique || areUnique(items, work),
  });
  return compiler;
}

function replaceCode(compiler: Ajv | Ajv2020, keywords: readonly string[], countWork: (context: KeywordCxt) => void): void {
  for (const keyword of keywords) {
    const rule = compiler.RULES.all[keyword];
    if (typeof rule !== "object" || !("code" in rule.definition)) continue;
    const { definition } = rule;
    const { code } = definition;
    definition.code = (context, type) => {
      countWork(context);
      code(context, type);
    };
  }
}

function replaceTest(compiler: Ajv | Ajv2020, keyword: string, createTest: (schema: unknown) => (value: unknown) => boolean): void {
  const rule = compiler.RULES.all[keyword];
  if (typeof rule !== "object" || !("code" in rule.definition)) return;
  rule.definition.code = (context) => {
    const test = context.gen.scopeValue("func", { ref: createTest(context.schema) });
    context.pass(_`${test}(${context.data})`);
  };
}

/** Of a list its elements, of an object its members and the elements of their lists. */
function partsOf(schema: unknown): number {
  if (Array.isArray(schema)) return schema.length;
  const members = typeof schema === "object" && schema !== null ? Object.values(schema) : [];
  return members.reduce((count: number, member) => count + (Array.isArray(member) ? member.length : 1), 0);
}

/** Whether a value is one of those: texts, numbers and the like take one look, however many there are. */
function valueTest(values: readonly unknown[], work: WorkLimit): (value: unknown) => boolean {
  const plain = new Set(values.filter((value) => !isCompound(value)));
  const compound = values.filter(isCompound);
  const steps = 1 + (compound.length === 0 ? 0 : JSON.stringify(compound).length / CHARACTERS_OF_VALUE_PER_STEP);
  return (value) => {
    if (!isCompound(value)) {
      work.spend(1);
      return plain.has(value);
    }
    work.spend(steps);
    return compound.some((each) => isEqualJson(each, value));
  };
}

function isCompound(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

function areUnique(items: readonly unknown[], work: WorkLimit): boolean {
  const seen = new Set<string>();
  for (const item of items) {
    const text = canonicalText(item);
    work.spend(1 + text.length);
    if (seen.has(text)) return false;
    seen.add(text);
  }
  return true;
}
