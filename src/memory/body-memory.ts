/** The parts of a body, its text, and the copy between them exist together for a moment. */
const BODY_COPIES = 3;
/** The memory of a part besides its bytes. */
const PART_BYTES = 256;
/**
 * With its copies, a body of this share takes three fifths of the budget. A single client may use three quarters. The difference is for the
 * parts of the body, even if each has only 350 bytes.
 */
const LARGEST_BODY_SHARE = 1 / 5;

/** Returns the memory of a part of an arriving body. */
export function partMemoryBytes(partBytes: number): number {
  return bodyMemoryBytes(partBytes) + PART_BYTES;
}

/** Returns the memory of a body, without what its parts add. */
export function bodyMemoryBytes(bodyBytes: number): number {
  return bodyBytes * BODY_COPIES;
}

/** Returns the size of the largest body that is accepted when nothing else is in memory. */
export function largestBodyBytes(budgetBytes: number): number {
  return Math.floor(budgetBytes * LARGEST_BODY_SHARE);
}
