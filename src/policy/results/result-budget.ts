import type { Span } from "../../json/strings.ts";
import { leftOutNote } from "./left-out-note.ts";
import { bytesOf, isStringValue, type Item, readString } from "./response-outline.ts";
import { CUT_HERE } from "./truncation-marks.ts";

/** An item of content as the client gets it. */
export type KeptItem =
  | { readonly kind: "whole"; readonly item: Item }
  | { readonly kind: "note"; readonly note: string }
  /** The text is between `before` and `after`, in at most `textBytes` bytes. */
  | { readonly kind: "cut"; readonly value: Span; readonly before: string; readonly after: string; readonly textBytes: number };

/** What an item costs, its comma included, in bytes: at least, and as it is. */
interface Costs {
  readonly item: Item;
  readonly leastBytes: number;
  readonly wholeBytes: number;
  /** What it is made of at `leastBytes`. */
  readonly least: KeptItem;
}

/** What is smaller than this part of the budget is kept whole, before anything else, in up to half of it. */
const SMALL_PART = 1 / 16;
/** No text is cut shorter, so that it still says something. */
const LEAST_TEXT_BYTES = 48;
/** Other members of a text item, such as annotations, are kept up to here. */
const MAX_FRAME_BYTES = 256;
const BARE_BEFORE = '{"type":"text","text":"';
const BARE_AFTER = '"}';
const COMMA_BYTES = 1;

/** A text item of the sidecar's own. */
export function textItem(text: string): string {
  return `{"type":"text","text":${JSON.stringify(text)}}`;
}

/**
 * Shares the room for content: what is small is kept whole, then texts get what is left, the first ones first, then all the rest; what
 * does not fit is a note, or, where there are too many items even for that, dropped from the end.
 *
 * @returns what is kept of each of the first items, and the bytes that are left over.
 */
export function shareBudget(text: string, items: readonly Item[], budgetBytes: number): { kept: KeptItem[]; leftBytes: number } {
  let leftBytes = budgetBytes;
  const costs: Costs[] = [];
  for (const item of items) {
    const cost = costsOf(text, item, budgetBytes);
    if (cost.leastBytes > leftBytes) break;
    costs.push(cost);
    leftBytes -= cost.leastBytes;
  }
  const kept = costs.map(({ least }) => least);
  const smallBytes = budgetBytes * SMALL_PART;
  let leftForSmall = Math.min(leftBytes, budgetBytes / 2);
  for (const [index, cost] of costs.entries()) {
    const moreBytes = cost.wholeBytes - cost.leastBytes;
    if (cost.wholeBytes > smallBytes || moreBytes > leftForSmall) continue;
    keepWhole(index, cost);
    leftForSmall -= moreBytes;
  }
  for (const [index, cost] of costs.entries()) {
    const each = kept[index];
    if (each?.kind !== "cut" || fits(index, cost)) continue;
    kept[index] = { ...each, textBytes: each.textBytes + leftBytes };
    leftBytes = 0;
  }
  for (const [index, cost] of costs.entries()) if (kept[index]?.kind === "note") fits(index, cost);
  return { kept, leftBytes };

  function fits(index: number, cost: Costs): boolean {
    const isFitting = cost.wholeBytes - cost.leastBytes <= leftBytes;
    if (isFitting) keepWhole(index, cost);
    return isFitting;
  }

  function keepWhole(index: number, { item, wholeBytes, leastBytes }: Costs): void {
    kept[index] = { kind: "whole", item };
    leftBytes -= wholeBytes - leastBytes;
  }
}

function costsOf(text: string, item: Item, maxBytes: number): Costs {
  const wholeBytes = bytesOf(text, item, maxBytes) + COMMA_BYTES;
  const least = leastOf(text, item, maxBytes);
  const leastBytes =
    COMMA_BYTES +
    (least.kind === "note"
      ? Buffer.byteLength(least.note)
      : Buffer.byteLength(least.before) + least.textBytes + CUT_HERE.length + Buffer.byteLength(least.after));
  return leastBytes < wholeBytes
    ? { item, leastBytes, wholeBytes, least }
    : { item, leastBytes: wholeBytes, wholeBytes, least: { kind: "whole", item } };
}

/** `"text"` in its longest spelling. */
const MAX_TYPE_LENGTH = 6 * 4 + 2;

export function isTextItem(text: string, { members }: Item): boolean {
  return readString(text, members?.get("type"), MAX_TYPE_LENGTH) === "text" && isStringValue(text, members?.get("text"));
}

function leastOf(text: string, item: Item, maxBytes: number): Exclude<KeptItem, { kind: "whole" }> {
  const value = item.members?.get("text");
  if (value === undefined || !isTextItem(text, item)) return { kind: "note", note: textItem(leftOutNote(text, item)) };
  const [head, tail] = [
    { start: item.start, end: value.start + 1 },
    { start: value.end - 1, end: item.end },
  ];
  const isBare = bytesOf(text, head, maxBytes) + bytesOf(text, tail, maxBytes) > MAX_FRAME_BYTES;
  return {
    kind: "cut",
    value,
    before: isBare ? BARE_BEFORE : text.slice(head.start, head.end),
    after: isBare ? BARE_AFTER : text.slice(tail.start, tail.end),
    textBytes: LEAST_TEXT_BYTES,
  };
}
