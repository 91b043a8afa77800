import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { findElements, findMembers, findPath } from "../../../src/json/find.ts";
import { skipString } from "../../../src/json/walk.ts";
import type { Span } from "../../../src/json/strings.ts";
import { memberOf, nodeOf, poisonEngine } from "../../support/json-reference.ts";
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
  it("members are returned in the order of the names, not of the text", () => {
    const text = '{"b":[1,{"a":0}],"a":"x\\"}","c":-1.5e3}';
    const { spans, duplicate } = findMembers(text, 0, ["a", "c", "b", "d"]);
    expect(spans.map((span) => cut(text, span))).toEqual(['"x\\"}"', "-1.5e3", '[1,{"a":0}]', undefined]);
    expect(duplicate).toBeUndefined();
  });

  it("nothing is found in an empty object or after its end", () => {
    expect(findMembers("{}", 0, ["id"]).spans).toEqual([undefined]);
    expect(findMembers(' { \n} , "id" : 1', 0, ["id"]).spans).toEqual([undefined]);
  });

  it("only the object at the given position is read", () => {
    const text = '{"params": {"id":1},"id":2}';
    expect(cut(text, findMembers(text, text.indexOf(" "), ["id"]).spans[0])).toBe("1");
  });

  it("a value that ends in backslashes is found", () => {
    const text = String.raw`{"a":"\\","b":"\\\"","c":"\\\\","id":1}`;
    const { spans } = findMembers(text, 0, ["a", "b", "c", "id"]);
    expect(spans.map((span) => cut(text, span))).toEqual([String.raw`"\\"`, String.raw`"\\\""`, String.raw`"\\\\"`, "1"]);
  });

  it("the last member of a repeated name is returned, with that name", () => {
    const text = '{"id":1,"a":0,"\\u0069\\u0064":2,"a":1,"a":2}';
    const { spans, duplicate } = findMembers(text, 0, ["a", "id"]);
    expect(spans.map((span) => cut(text, span))).toEqual(["2", "2"]);
    expect(duplicate).toBe("id");
  });

  it("a name is distinguished from longer and shorter ones", () => {
    const text = '{"idx":1,"i":2,"Id":3,"id ":4}';
    expect(findMembers(text, 0, ["id"]).spans).toEqual([undefined]);
  });

  it("the last member is found even if the engine misreads names", () => {
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

  it("a name in a string or in a nested object is ignored", () => {
    fc.assert(
      fc.property(objectText(otherMembers("id")), (json) => {
        expect(findMembers(json, 0, ["id"]).spans).toEqual([undefined]);
      }),
    );
  });
});

describe("findPath", () => {
  it("names are followed downwards", () => {
    const text = '{"a":{"b":1},"params":{"_meta":{"other":{},"progressToken" : "t"}}}';
    expect(cut(text, findPath(text, 0, ["params", "_meta", "progressToken"]))).toBe('"t"');
  });

  it.each(['{"a":1}', '{"a":"{\\"b\\":1}"}', '{"a":[{"b":1}]}', '{"a":["b",1]}', '{"a":null}', '{"a":{}}', '{"b":1}', "{}"])(
    "nothing is found in %s, which lacks a level or an object",
    (text) => {
      expect(findPath(text, 0, ["a", "b"])).toBeUndefined();
    },
  );
});

describe("findElements", () => {
  it("each element of an array is found without surrounding white space", () => {
    const text = ' [ 1.0 ,{"a":[1,2]},"]," , [],\n-0]';
    expect(findElements(text).map((span) => cut(text, span))).toEqual(["1.0", '{"a":[1,2]}', '"],"', "[]", "-0"]);
    expect(findElements(" [ ] ")).toEqual([]);
  });

  it("only the array at the given position is read", () => {
    const text = '{"a":[0],"b": [1,[2]] ,"c":[3]}';
    expect(findElements(text, text.indexOf(" ")).map((span) => cut(text, span))).toEqual(["1", "[2]"]);
  });

  it("all elements of any array are found", () => {
    const element = fc.tuple(whitespace, valueText, whitespace).map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.array(element, { minLength: 1 }), whitespace, (elements, around) => {
        const text = `${around}[${elements.join(",")}]${around}`;
        expect(findElements(text).map((span) => cut(text, span))).toEqual(elements.map((each) => each.trim()));
      }),
    );
  });
});
