import { isTextItem, type KeptItem, textItem } from "./result-budget.ts";
import { cutJsonString } from "./text-cut.ts";
import { CUT_HERE } from "./truncation-marks.ts";

/**
 * Writes what is kept of the content.
 *
 * @returns writes it with `line` as the last line of the last text; as a text of its own where that one is kept whole, since it may be
 *   JSON or code; without it where there is none.
 */
export function contentWriter(text: string, kept: readonly KeptItem[]): (line?: string) => string {
  const lastText = kept.findLastIndex((each) => each.kind !== "whole" || isTextItem(text, each.item));
  const last = kept[lastText];
  const items = kept.map((each) => writeItem(text, each));
  return (line) => {
    if (line === undefined) return items.join(",");
    if (last?.kind !== "cut") return [...items, textItem(line)].join(",");
    return items.with(lastText, writeItem(text, last, String.raw`\n` + line)).join(",");
  };
}

function writeItem(text: string, kept: KeptItem, ending = CUT_HERE): string {
  if (kept.kind === "whole") return text.slice(kept.item.start, kept.item.end);
  if (kept.kind === "note") return kept.note;
  return `${kept.before}${cutJsonString(text, kept.value, kept.textBytes)}${ending}${kept.after}`;
}
