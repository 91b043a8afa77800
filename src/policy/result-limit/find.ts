import { decodeString, type Span } from "../../json/strings.ts";
import { Code } from "../../json/tokens.ts";
import { skipString, skipValue, STOP, walkElements, walkMembers } from "../../json/walk.ts";

/** A member of an object, or an element of an array. The span is that of the value. */
export interface Part extends Span {
  /** The start of the name with its quote; of the value for an element. */
  readonly from: number;
  /** Undefined for another value than an object, and for one that is not looked into. */
  readonly members?: Parts;
  /** The first elements. Undefined for another value than an array, and for one that is not looked into. */
  readonly elements?: readonly Part[];
  /** The number of all elements. */
  readonly elementCount?: number;
}

/** The parts by name. The last one counts if a name is repeated. */
export type Parts = ReadonlyMap<string, Part>;

/** The members that are looked into; `[]` stands for each element of an array. */
interface Shape {
  readonly [name: string]: Shape;
}
const RESULT: Shape = { content: { "[]": { resource: {} } }, _meta: {}, task: {} };
const RESPONSE: Shape = { result: RESULT, error: {} };

/** A server may send ten million names and elements. One that is read takes twenty times as long as one that is skipped. */
const MAX_READ = 100_000;
/** A member with a longer name is skipped. In UTF-16 units with quotes: `structuredContent` has 104 with an escape for each letter. */
const MAX_NAME_LENGTH = 128;

/**
 * Finds the parts of a JSON-RPC response in one pass. Values are not parsed, copied or checked.
 *
 * @param text a valid JSON object.
 * @returns the members. `isComplete` is false if the response or its result has more members than were read.
 */
export function findParts(text: string): { readonly parts: Parts; readonly isComplete: boolean } {
  const outer = { left: MAX_READ };
  const inner = { left: MAX_READ };
  const parts = readObject(0, 0, RESPONSE).members ?? new Map<string, Part>();
  return { parts, isComplete: outer.left >= 0 };

  // Recurses as deep as the shape, not as the text.
  function read(from: number, start: number, shape: Shape | undefined): Part {
    const first = text.charCodeAt(start);
    if (shape !== undefined && first === Code.openBrace) return readObject(from, start, shape);
    if (shape?.["[]"] !== undefined && first === Code.openBracket) return readArray(from, start, shape["[]"]);
    return { from, start, end: skipValue(text, start) };
  }

  function readObject(from: number, start: number, shape: Shape): Part {
    const members = new Map<string, Part>();
    const budget = shape === RESPONSE || shape === RESULT ? outer : inner;
    const stop = walkMembers(text, start, (keyStart, keyEnd, valueStart) => {
      if (budget.left-- <= 0) return STOP;
      const name = keyEnd - keyStart > MAX_NAME_LENGTH ? undefined : decodeString(text, keyStart, keyEnd);
      const part = read(keyStart, valueStart, name !== undefined && Object.hasOwn(shape, name) ? shape[name] : undefined);
      if (name !== undefined) members.set(name, part);
      return part.end;
    });
    return { from, start, end: skipRest(text, stop).end, members };
  }

  function readArray(from: number, start: number, shape: Shape): Part {
    const elements: Part[] = [];
    const stop = walkElements(text, start, (elementStart) => {
      if (inner.left-- <= 0) return STOP;
      const part = read(elementStart, elementStart, shape);
      elements.push(part);
      return part.end;
    });
    const rest = skipRest(text, stop);
    return { from, start, end: rest.end, elements, elementCount: elements.length + rest.count };
  }
}

/** Skips and counts members or elements up to the closing bracket. A callback for each would take most of a second. */
function skipRest(text: string, start: number): { readonly count: number; readonly end: number } {
  const first = text.charCodeAt(start);
  let count = first === Code.closeBrace || first === Code.closeBracket ? 0 : 1;
  let depth = 0;
  let index = start;
  for (; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code === Code.quote) index = skipString(text, index) - 1;
    else if (code === Code.comma) {
      if (depth === 0) count++;
    } else if (code === Code.openBrace || code === Code.openBracket) depth++;
    else if ((code === Code.closeBrace || code === Code.closeBracket) && depth-- === 0) break;
  }
  return { count, end: index + 1 };
}
