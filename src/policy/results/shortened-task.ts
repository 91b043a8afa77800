import { KeptMembers } from "./kept-members.ts";
import { type Member, memberText } from "./response-outline.ts";
import { openResult, type TooLong } from "./too-long.ts";
import { MARK_NAMES, marksBytes, withMarks } from "./truncation-marks.ts";

const END_BYTES = '"task":{},"_meta":{}}}'.length;

/** What a client needs to come back for the result. */
const NEEDED: ReadonlySet<string> = new Set(["taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"]);

/**
 * A CreateTaskResult (MCP 2025-11-25, basic/utilities/tasks) in fewer bytes.
 *
 * @returns undefined if it is none, or if there is no room for the members that a client needs of the task.
 */
export function shortenTaskResult(tooLong: TooLong): string | undefined {
  const { text, outline, originalBytes, maxBytes } = tooLong;
  const { result, meta, task } = outline;
  if (result === undefined || task === undefined) return undefined;
  const sizes = { originalBytes, droppedItems: 0, itemCount: 0 };
  const open = openResult(tooLong);
  const roomBytes = maxBytes - Buffer.byteLength(open) - END_BYTES - marksBytes(sizes, maxBytes);
  const ofTask = [...task.values()];
  const needed = new KeptMembers(
    text,
    ofTask.filter(({ name }) => NEEDED.has(name)),
    maxBytes,
  );
  const leftBytes = roomBytes - needed.keep(roomBytes);
  const hasId = ofTask.some(({ name }) => name === "taskId");
  if (!needed.isComplete || (!hasId && !outline.isComplete)) return undefined;
  const ofMeta = [...(meta?.values() ?? [])].filter(({ name }) => !MARK_NAMES.has(name));
  const ofResult = [...result.values()].filter(({ name }) => name !== "task" && name !== "_meta");
  const others = new KeptMembers(text, [...ofTask.filter(({ name }) => !NEEDED.has(name)), ...ofMeta, ...ofResult], maxBytes);
  others.keep(leftBytes);

  const taskText = write(ofTask).join(",");
  const rest = write(ofResult)
    .map((member) => `,${member}`)
    .join("");
  return withMarks(sizes, ({ members }, padding) => {
    return `${open}"task":{${taskText}}${rest},"_meta":{${[...write(ofMeta), members].join(",")}}${padding}}}`;
  });

  function write(members: readonly Member[]): string[] {
    return members.filter((member) => needed.has(member) || others.has(member)).map((member) => memberText(text, member));
  }
}
