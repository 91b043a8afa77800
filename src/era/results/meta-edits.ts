import { type Edit, removeMembers } from "../../json/edit.ts";
import type { Span } from "../../json/strings.ts";

const NONE: ReadonlySet<string> = new Set();

/**
 * Returns the edits that remove a key of `_meta`, or all of `_meta` if it has no other key.
 *
 * @param object position of the object that has `_meta`.
 * @param meta the value of `_meta`; undefined for none.
 * @param others members of the object to remove besides.
 */
export function removeMetaKey(text: string, object: number, meta: Span | undefined, key: string, others = NONE): Edit[] {
  let keptKeys = 0;
  const isRemoved = (name: string): boolean => {
    if (name !== key) keptKeys++;
    return name === key;
  };
  const ofMeta = meta === undefined || text[meta.start] !== "{" ? [] : removeMembers(text, meta.start, isRemoved);
  const isEmpty = ofMeta.length > 0 && keptKeys === 0;
  const ofObject = removeMembers(text, object, (name) => others.has(name) || (isEmpty && name === "_meta"));
  return isEmpty ? ofObject : [...ofObject, ...ofMeta];
}
