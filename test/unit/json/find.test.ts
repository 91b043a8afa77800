import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findElements, findMembers, findPath } from "../../../src/json/find.ts";
import { skipString } from "../../../src/json/walk.ts";
import type { Span } from "../../../src/json/strings.ts";
import { memberOf, nodeOf, poisonEngine } from "../support/json-reference.ts";
import { inAnyOrder, keyText, memberText, objectText, otherMembers, valueText, whitespace } from "../../support/json-text.ts";

function cut(text: string, span: Span | undefined): string | undefined {
  return span === undefined ? undefined : text.slice(span.start, span.end);
}

describe("skipString", () => {
  it("a string without a closing quote ends with the text", () => {
    expect([skipString('"a', 0), skipString('"a\\"', 0), skipString('"', 0)]).toEqual([2, 4, 1]);
  });
});

describe("findMembers", () => {
  it("finds members in the order asked for, whatever their order in the text", () => {
    const text = '{"b":[1,{"a":0}],"a":"x\\"}","c":-1.5e3}';
    const { spans, duplicate } = findMembers(text, 0, ["a", "c", "b", "d"]);
    expect(spans.map((span) => cut(text, span))).toEqual(['"x\\"}"', "-1.5e3", '[1,{"a":0}]', undefined]);
    expect(duplicate).toBeUndefined();
  });

  it("finds nothing in an empty object, nor behind its end", () => {
    expect(findMembers("{}", 0, ["id"]).spans).toEqual([undefined]);
    expect(findMembers(' { \n} , "id" : 1', 0, ["id"]).spans).toEqual([undefined]);
  });

  it("reads the object that starts where it is told, and no further", () => {
    const text = '{"params": {"id":1},"id":2}';
    expect(cut(text, findMembers(text, text.indexOf(" "), ["id"]).spans[0])).toBe("1");
  });

  it("finds a value that ends in backslashes", () => {
    const text = String.raw`{"a":"\\","b":"\\\"","c":"\\\\","id":1}`;
    const { spans } = findMembers(text, 0, ["a", "b", "c", "id"]);
    expect(spans.map((span) => cut(text, span))).toEqual([String.raw`"\\"`, String.raw`"\\\""`, String.raw`"\\\\"`, "1"]);
  });

  it("takes the last of a repeated name and says which one is repeated", () => {
    const text = '{"id":1,"a":0,"\\u0069\\u0064":2,"a":1,"a":2}';
    const { spans, duplicate } = findMembers(text, 0, ["a", "id"]);
    expect(spans.map((span) => cut(text, span))).toEqual(["2", "2"]);
    expect(duplicate).toBe("id");
  });

  it("tells names apart of which one begins like the other", () => {
    const text = '{"idx":1,"i":2,"Id":3,"id ":4}';
    expect(findMembers(text, 0, ["id"]).spans).toEqual([undefined]);
  });

  it("finds the last member of that name, also after the engine is poisoned", () => {
    const object = objectText(
      inAnyOrder(
        otherMembers("wanted"),
        memberText(keyText("wanted"), valueText),
        fc.array(memberText(keyText("wanted"), valueText), { maxLength: 2 }),
      ),
    );
    const text = fc.tuple(whitespace, object, whitespace).map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, (json) => {
        const node = nodeOf(json);
        poisonEngine(node);
        expect(cut(json, findMembers(json, 0, ["wanted"]).spans[0])).toBe(memberOf(node, "wanted")?.text);
      }),
    );
  });

  it("finds no name that is only within a string or deeper", () => {
    fc.assert(
      fc.property(objectText(otherMembers("id")), (json) => {
        expect(findMembers(json, 0, ["id"]).spans).toEqual([undefined]);
      }),
    );
  });
});

describe("findPath", () => {
  it("follows names downwards", () => {
    const text = '{"a":{"b":1},"params":{"_meta":{"other":{},"progressToken" : "t"}}}';
    expect(cut(text, findPath(text, 0, ["params", "_meta", "progressToken"]))).toBe('"t"');
  });

  it.each(['{"a":1}', '{"a":"{\\"b\\":1}"}', '{"a":[{"b":1}]}', '{"a":["b",1]}', '{"a":null}', '{"a":{}}', '{"b":1}', "{}"])(
    "finds nothing where a level of %s is absent or no object",
    (text) => {
      expect(findPath(text, 0, ["a", "b"])).toBeUndefined();
    },
  );
});

describe("findElements", () => {
  it("finds each element of an array, without the white space around it", () => {
    const text = ' [ 1.0 ,{"a":[1,2]},"]," , [],\n-0]';
    expect(findElements(text).map((span) => cut(text, span))).toEqual(["1.0", '{"a":[1,2]}', '"],"', "[]", "-0"]);
    expect(findElements(" [ ] ")).toEqual([]);
  });

  it("reads the array that starts where it is told, and no further", () => {
    const text = '{"a":[0],"b": [1,[2]] ,"c":[3]}';
    expect(findElements(text, text.indexOf(" ")).map((span) => cut(text, span))).toEqual(["1", "[2]"]);
  });

  it("finds in any array all that is in it", () => {
    const element = fc.tuple(whitespace, valueText, whitespace).map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.array(element, { minLength: 1 }), whitespace, (elements, around) => {
        const text = `${around}[${elements.join(",")}]${around}`;
        expect(findElements(text).map((span) => cut(text, span))).toEqual(elements.map((each) => each.trim()));
      }),
    );
  });
});
