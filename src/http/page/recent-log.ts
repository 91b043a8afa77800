import { copied } from "../../json/strings.ts";
import { shorten } from "../../json/text.ts";
import { HISTORY_LIMITS } from "./page-update.ts";
import { RecentItems } from "./recent-items.ts";

/** The limits of a line, and of all lines. In UTF-16 units. */
const MAX_LINE_LENGTH = 16 * 1024;
const MAX_LENGTH = 256 * 1024;

/** The last lines of the log, with secrets masked. */
export class RecentLog {
  readonly lines = new RecentItems<string>({ maxCount: HISTORY_LIMITS.logLines, maxLength: MAX_LENGTH, lengthOf: (line) => line.length });

  /** @param line with secrets masked. */
  add(line: string): void {
    this.lines.add(line.length > MAX_LINE_LENGTH ? copied(shorten(line, MAX_LINE_LENGTH)) : line);
  }
}
