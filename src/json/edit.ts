import { findMembers } from "./read.ts";
import { Code, decodeString, skipString, skipWhitespace, type Span, walk } from "./text.ts";

export interface Edit extends Span {
  readonly text: string;
}

/** Other values than objects have no members, nor has the start -1 of an absent value. */
export function removeMember(text: string, start: number, name: string): Edit[] {
  return removeMembers(text, start, (each) => each === name);
}

export function removeMembers(text: string, start: number, isRemoved: (name: string) => boolean): Edit[] {
  return removalOf((visit) => {
    walk(text, start, (_, end, nameStart, nameEnd) => visit(nameStart, end, !isRemoved(decodeString(text, nameStart, nameEnd))));
  });
}

/** New members come first. @param found the present values, if they are known. */
export function setMembers(
  text: string,
  start: number,
  members: readonly (readonly [name: string, valueText: string])[],
  found?: readonly (Span | undefined)[],
): Edit[] {
  const names = members.map(([name]) => name);
  const spans = found ?? findMembers(text, start, names).spans;
  const edits: Edit[] = [];
  let added = "";
  for (const [index, [name, valueText]] of members.entries()) {
    const span = spans[index];
    if (span === undefined) added += `${JSON.stringify(name)}:${valueText},`;
    else edits.push({ ...span, text: valueText });
  }
  if (added !== "") edits.push(firstMembers(text, start, added.slice(0, -1)));
  return edits;
}

/** Members without a value are left out. */
export function objectText(members: readonly (readonly [name: string, valueText: string | undefined])[]): string {
  return `{${members.flatMap(([name, valueText]) => (valueText === undefined ? [] : [`${JSON.stringify(name)}:${valueText}`])).join(",")}}`;
}

export function firstMembers(text: string, start: number, membersText: string): Edit {
  const isEmpty = text[skipWhitespace(text, start + 1)] === "}";
  return { start: start + 1, end: start + 1, text: isEmpty ? membersText : `${membersText},` };
}

/** @param items all members, with their keys, or all elements, in order. */
export function removeItems(items: readonly (Span & { readonly isKept: boolean })[]): Edit[] {
  return removalOf((visit) => {
    for (const { start, end, isKept } of items) visit(start, end, isKept);
  });
}

/**
 * Removes items of one object or array, each with the comma after it, and the last ones with the comma before them. Keeps nothing for the
 * others: there may be millions.
 */
function removalOf(visitAll: (visit: (start: number, end: number, isKept: boolean) => void) => void): Edit[] {
  const edits: Edit[] = [];
  let removedStart: number | undefined;
  let lastKeptEnd: number | undefined;
  let lastEnd = 0;
  visitAll((start, end, isKept) => {
    lastEnd = end;
    if (!isKept) {
      removedStart ??= start;
      return;
    }
    if (removedStart !== undefined) edits.push({ start: removedStart, end: start, text: "" });
    removedStart = undefined;
    lastKeptEnd = end;
  });
  if (removedStart !== undefined) edits.push({ start: lastKeptEnd ?? removedStart, end: lastEnd, text: "" });
  return edits;
}

/** The edits must not overlap. With `+` instead of `join`, each part would stay in memory as a separate string. */
export function applyEdits(text: string, edits: readonly Edit[]): string {
  if (edits.length === 0) return text;
  const parts: string[] = [];
  let from = 0;
  for (const edit of edits.toSorted((a, b) => a.start - b.start)) {
    parts.push(text.slice(from, edit.start), edit.text);
    from = edit.end;
  }
  parts.push(text.slice(from));
  return parts.join("");
}

/** Replaces strings and names. @param replace returns a JSON text, or undefined to keep the string. */
export function replaceStrings(text: string, replace: (start: number, end: number) => string | undefined): string {
  const edits: Edit[] = [];
  for (let start = text.indexOf('"'); start !== -1;) {
    const end = skipString(text, start);
    const by = replace(start, end);
    if (by !== undefined) edits.push({ start, end, text: by });
    start = text.indexOf('"', end);
  }
  return applyEdits(text, edits);
}

const NEEDS_ESCAPE = /[^ !#-[\]-\uffff]/;

/** Writes names without escapes if they do not need them (see `decodeString`). */
export function withPlainNames(text: string): string {
  return replaceStrings(text, (start, end) => {
    if (text.charCodeAt(skipWhitespace(text, end)) !== Code.colon) return undefined;
    const name = decodeString(text, start, end);
    return end - start === name.length + 2 || !name.isWellFormed() || NEEDS_ESCAPE.test(name) ? undefined : `"${name}"`;
  });
}
