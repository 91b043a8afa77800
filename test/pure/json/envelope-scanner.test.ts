import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { EnvelopeScanner } from "../../../src/json/envelope-scanner.ts";
import { memberOf, nodeOf, poisonEngine } from "../../support/json-reference.ts";
import {
  idText,
  inAnyOrder,
  inPieces,
  memberText,
  objectText,
  otherMembers,
  together,
  valueText,
  whitespace,
} from "../../support/json-text.ts";

function scan(...pieces: readonly string[]): EnvelopeScanner {
  const scanner = new EnvelopeScanner();
  for (const piece of pieces) scanner.push(piece);
  return scanner;
}

/** A member of the envelope, whose name is spelled as all servers spell it. */
function member(name: string, value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return memberText(fc.constant(`"${name}"`), value);
}

/** An object with an id or two, and perhaps a method. */
const message = fc
  .tuple(
    whitespace,
    objectText(
      inAnyOrder(
        together(otherMembers("id", "method"), fc.array(member("method", valueText), { maxLength: 1 })),
        member("id", idText),
        fc.array(member("id", valueText), { maxLength: 1 }),
      ),
    ),
    whitespace,
  )
  .map((parts) => parts.join(""));

describe("EnvelopeScanner", () => {
  it("the method and a single id are found, however the text is split", () => {
    fc.assert(
      fc.property(inPieces(message), ({ text, pieces }) => {
        const node = nodeOf(text);
        poisonEngine(node);
        const ids = (node.members ?? []).filter(({ name }) => name === "id");
        const { idText: found, hasMethod } = scan(...pieces);
        expect(found).toBe(ids.length === 1 ? ids[0]?.node.text : undefined);
        expect(hasMethod).toBe(memberOf(node, "method") !== undefined);
      }),
    );
  });

  it.each([
    '{"result":{"id":1}}',
    '{"result":[{"id":1}]}',
    '{"result":"\\",\\"id\\":1,\\""}',
    '{"result":"}","x":"\\\\","y":"{\\"id\\":1}"}',
    '{"x":"id","y":1}',
    '[{"id":1}]',
    '["id",1]',
    // Neither of two ids is returned, nor one that is no scalar or too long.
    '{"id":1,"result":{},"id":2}',
    String.raw`{"id":1,"i\u0064":1}`,
    '{"id":{"id":1},"result":2}',
    '{"id":1,"id":[]}',
    `{"id":"${"x".repeat(5000)}","result":2}`,
  ])("no id is found in %s", (text) => {
    expect(scan(text).idText).toBeUndefined();
  });

  it("the scan ends on any text, valid or not", () => {
    fc.assert(
      fc.property(
        inPieces(fc.string({ unit: fc.constantFrom("{", "}", "[", "]", '"', "\\", ":", ",", "id", '"id"', "1", " ") })),
        ({ pieces }) => {
          expect(scan(...pieces).hasMethod).toBeTypeOf("boolean");
        },
      ),
    );
  });
});
