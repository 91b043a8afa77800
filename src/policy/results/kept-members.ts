import { bytesOf, type Member } from "./response-outline.ts";

/** `,` and `:`. */
const PUNCTUATION_BYTES = 2;

interface Candidate {
  readonly member: Member;
  readonly bytes: number;
}

/** Members that are kept as they are where they fit: the smallest first, so that the biggest goes first. */
export class KeptMembers {
  readonly #waiting: Candidate[];
  readonly #kept = new Set<Member>();

  /** @param maxBytes what can be kept at most. */
  constructor(text: string, members: readonly Member[], maxBytes: number) {
    const candidates = members.map((member) => ({
      member,
      bytes: bytesOf(text, member.key, maxBytes) + bytesOf(text, member, maxBytes) + PUNCTUATION_BYTES,
    }));
    this.#waiting = candidates.sort((a, b) => b.bytes - a.bytes);
  }

  /** Whether all of them are kept. */
  get isComplete(): boolean {
    return this.#waiting.length === 0;
  }

  has(member: Member): boolean {
    return this.#kept.has(member);
  }

  /** Keeps more of them. @returns how many bytes they take, at most `roomBytes`. */
  keep(roomBytes: number): number {
    let usedBytes = 0;
    for (let next = this.#waiting.at(-1); next !== undefined && usedBytes + next.bytes <= roomBytes; next = this.#waiting.at(-1)) {
      usedBytes += next.bytes;
      this.#kept.add(next.member);
      this.#waiting.pop();
    }
    return usedBytes;
  }
}
