/** What says in an answer that something of it was left out. */
export interface Sizes {
  readonly originalBytes: number;
  /** How many items of the content are left out altogether, of how many. */
  readonly droppedItems: number;
  readonly itemCount: number;
}

/** Texts that hold sizes of the answer that they are in, as it is sent. */
export interface Marks {
  /** Members for `_meta`, or for `data` of an error. */
  readonly members: string;
  /** For a person or a model, as JSON text without quotes; on a line of its own. */
  readonly line: string;
}

export const MARK_NAMES: ReadonlySet<string> = new Set(["truncated", "originalBytes", "keptBytes"]);

/** Where a text is cut and another one follows, which ends with the line that says more. */
export const CUT_HERE = String.raw`\n[cut here]`;

/** The most that the marks take, beyond what `build` makes of empty ones. */
export function marksBytes(sizes: Sizes, maxBytes: number): number {
  const { members, line } = writeMarks(sizes, maxBytes, sizes.originalBytes);
  return members.length + line.length;
}

/**
 * Builds an answer that tells its own size.
 *
 * @param build puts the marks in their places, and the spaces of `padding` wherever JSON allows white space.
 */
export function withMarks(sizes: Sizes, build: (marks: Marks, padding: string) => string): string {
  const { originalBytes } = sizes;
  let keptBytes = 0;
  for (;;) {
    const marks = writeMarks(sizes, keptBytes, Math.max(0, originalBytes - keptBytes));
    const text = build(marks, "");
    const bytes = Buffer.byteLength(text);
    // Another digit in one number may cost one in the other: a space fills the gap.
    if (bytes <= keptBytes) return bytes === keptBytes ? text : build(marks, " ".repeat(keptBytes - bytes));
    keptBytes = bytes;
  }
}

function writeMarks({ originalBytes, droppedItems, itemCount }: Sizes, keptBytes: number, leftOutBytes: number): Marks {
  const items = droppedItems === 0 ? "" : `, ${droppedItems} of ${itemCount} items`;
  return {
    members: `"truncated":true,"originalBytes":${originalBytes},"keptBytes":${keptBytes}`,
    line: `[truncated: ${leftOutBytes} of ${originalBytes} bytes${items} left out; ask for less at a time]`,
  };
}
