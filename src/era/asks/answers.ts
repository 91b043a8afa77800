import { decodeString, detached } from "../../json/strings.ts";
import { skipValue, walkMembers } from "../../json/walk.ts";
import { type RequestMessage, Slot } from "../../protocol/message.ts";
import type { Answers } from "./open-asks.ts";

/** The maximum number of answers that are read from one request. */
const MAX_ANSWERS = 256;
const NONE: Answers = new Map();
/** Answers that come before the questions are kept. In UTF-16 units. */
const MAX_EARLY_LENGTH = 16 * 1024;

/** Returns the answers of a first request, without the text that they are from. Long ones are ignored: the client is asked then. */
export function earlyAnswersOf(request: RequestMessage): Answers {
  const span = request.outline.span(Slot.inputResponses);
  if (span === undefined || span.end - span.start > MAX_EARLY_LENGTH) return NONE;
  return new Map([...answersOf(request)].map(([key, text]) => [key, detached(text, request.text)]));
}

/** Returns the answers of a request by key. An ambiguous key has none. */
export function answersOf({ text, outline }: RequestMessage): Answers {
  const answers = new Map<string, string>();
  const ambiguous = new Set<string>();
  if (!outline.isObject(Slot.inputResponses)) return answers;
  walkMembers(text, outline.start(Slot.inputResponses), (keyStart, keyEnd, valueStart) => {
    const end = skipValue(text, valueStart);
    const key = decodeString(text, keyStart, keyEnd);
    if (answers.has(key)) ambiguous.add(key);
    if (answers.size < MAX_ANSWERS) answers.set(key, text.slice(valueStart, end));
    return end;
  });
  for (const key of ambiguous) answers.delete(key);
  return answers;
}
