import type { JSX, TargetedEvent } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { PageRequest } from "../http/page-update.ts";
import type { Numbered } from "./connection.ts";
import { parsedObject } from "./form-schema.ts";
import { countText, durationText, timeText } from "./format.ts";
import { Section, Table, Text } from "./text.tsx";

export function Requests({ requests }: { readonly requests: readonly Numbered<PageRequest>[] }): JSX.Element {
  return (
    <Section id="requests" title="Requests">
      {requests.length === 0 ? (
        <p>No request has ended yet.</p>
      ) : (
        // A region that scrolls must be reachable by keyboard.
        <div class="scroll" tabIndex={0} role="group" aria-label="List of requests">
          <Table
            caption={`${countText(requests.length, "request")}, newest first`}
            columns={["Time", "Method", "Tool", "Duration", "Ending"]}
          >
            {requests.toReversed().map(({ key, value }) => (
              <RequestRow key={key} request={value} />
            ))}
          </Table>
        </div>
      )}
    </Section>
  );
}

function RequestRow({ request }: { readonly request: PageRequest }): JSX.Element {
  const { at, method, tool, durationMs, ending } = request;
  const { words, isError } = endingOf(ending);
  return (
    <tr>
      <td class="time">{timeText(at)}</td>
      <td>{method === null ? "not read" : <Text of={method} />}</td>
      <td>{tool !== null && <Text of={tool} />}</td>
      <td class="number">{durationMs !== null && durationText(durationMs)}</td>
      <td class={isError ? "error" : undefined}>{words}</td>
    </tr>
  );
}

function endingOf(ending: PageRequest["ending"]): { readonly words: string; readonly isError: boolean } {
  if (ending === "results") return { words: "result", isError: false };
  if (ending === "errors") return { words: "error response", isError: true };
  if (ending === "dismissed") return { words: "cancelled", isError: false };
  if (ending === "unread") return { words: "client disconnected", isError: false };
  // A code of the sidecar, such as REQUEST_TIMEOUT.
  return { words: `error: ${ending.toLowerCase().replaceAll("_", " ")}`, isError: true };
}

/** In pixels. The end is near enough to follow it. */
const NEAR_END = 20;
const MAX_FIELD_LENGTH = 300;

/** The tail of the sidecar's log. It follows the end, unless the reader has scrolled up. */
export function Log({ lines }: { readonly lines: readonly Numbered<string>[] }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const onScroll = ({ currentTarget }: TargetedEvent<HTMLDivElement>): void => {
    isAtEnd.current = currentTarget.scrollHeight - currentTarget.scrollTop - currentTarget.clientHeight < NEAR_END;
  };
  useLayoutEffect(() => {
    if (isAtEnd.current && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [lines]);
  return (
    <Section id="log" title="Log">
      {/* A region that scrolls must be reachable by keyboard. */}
      <div class="scroll log" ref={box} onScroll={onScroll} tabIndex={0} role="group" aria-label="Lines of the log">
        {lines.length === 0 ? (
          <p>The log is empty.</p>
        ) : (
          <Table caption={`${countText(lines.length, "line")}, newest last`} columns={["Time", "Level", "Message"]}>
            {lines.map(({ key, value }) => (
              <LogRow key={key} text={value} />
            ))}
          </Table>
        )}
      </div>
    </Section>
  );
}

function LogRow({ text }: { readonly text: string }): JSX.Element {
  const { time, level, message, fields } = parsedLine(text);
  return (
    <tr class={`level-${level === "error" || level === "warn" ? level : "info"}`}>
      <td class="time">{time}</td>
      <td>
        <Text of={level} maxLength={20} />
      </td>
      <td>
        <Text of={message} />
        {fields.map(([name, value]) => (
          <span class="field" key={name}>
            {" "}
            <Text of={name} maxLength={40} />=<Text of={value} maxLength={MAX_FIELD_LENGTH} />
          </span>
        ))}
      </td>
    </tr>
  );
}

/** A line that is not JSON, because it was shortened, is all message. */
function parsedLine(text: string) {
  const line = parsedObject(text, false);
  if (typeof line === "string") return { time: "", level: "", message: text, fields: [] };
  // The sidecar's own pid is the same in all lines.
  const { time, level, msg, pid: _pid, ...rest } = line;
  const fields = Object.entries(rest).map(([name, value]) => [name, asText(value)] as const);
  return { time: typeof time === "string" ? timeText(time) : "", level: asText(level), message: asText(msg), fields };
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}
