import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import type { PageRequest, PageState } from "../http/page-update.ts";
import type { Numbered } from "./connection.ts";
import { asText, parsedObject } from "./fields.ts";
import { endingText } from "./figures.ts";
import { bytesText, durationText, timeText } from "./format.ts";
import { Fact, Section, Table, Text } from "./text.tsx";

export function Requests({ requests }: { readonly requests: readonly Numbered<PageRequest>[] }): JSX.Element {
  return (
    <Section id="requests" title="Requests">
      <Table caption="Requests, newest first" columns={["Time", "Method", "Tool", "Duration", "End"]}>
        {requests.toReversed().map(({ key, value: { at, method, tool, durationMs, ending, isError } }) => (
          <tr key={key}>
            <td class="time">{timeText(at)}</td>
            <td>{method === null ? "not read" : <Text of={method} />}</td>
            <td>{tool !== null && <Text of={tool} />}</td>
            <td class="number">{durationMs !== null && durationText(durationMs)}</td>
            <td class={isError ? "error" : undefined}>{endingText(ending)}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

const MAX_FIELD_LENGTH = 300;

export function Log({ lines }: { readonly lines: readonly Numbered<string>[] }): JSX.Element {
  return (
    <Section id="log" title="Log">
      <Table caption="Lines of the log, newest first" columns={["Time", "Level", "Message"]}>
        {lines.toReversed().map(({ key, value }) => (
          <LogRow key={key} text={value} />
        ))}
      </Table>
    </Section>
  );
}

function LogRow({ text }: { readonly text: string }): JSX.Element {
  // The page renders each second.
  const line = useMemo(() => parsedObject(text, false), [text]);
  // A line that was shortened is not JSON. The sidecar's own pid is the same in all lines.
  const { time, level, msg, pid: _pid, ...rest } = typeof line === "string" ? { msg: text } : line;
  return (
    <tr class={level === "error" ? "bad" : level === "warn" ? "wait" : undefined}>
      <td class="time">{typeof time === "string" && timeText(time)}</td>
      <td>
        <Text of={asText(level)} maxLength={20} />
      </td>
      <td class="message">
        <Text of={asText(msg)} />
        {Object.entries(rest).map(([name, value]) => (
          <span class="note" key={name}>
            {" "}
            <Text of={name} maxLength={40} />=<Text of={asText(value)} maxLength={MAX_FIELD_LENGTH} />
          </span>
        ))}
      </td>
    </tr>
  );
}

export function Load({
  state: { asksSince, sessions, stateless, openStreams, uptimeMs, lanes },
}: {
  readonly state: PageState;
}): JSX.Element {
  const total = (key: "servers" | "requestsInFlight" | "waiting" | "queuedBytes"): number =>
    Object.values(lanes).reduce((sum, lane) => sum + lane[key], 0);
  return (
    <Section id="load" title="Load">
      <dl class="facts">
        <Fact name="Sessions">{sessions}</Fact>
        <Fact name="Clients without a session">{stateless?.clients ?? 0}</Fact>
        <Fact name="Open streams">{openStreams}</Fact>
        <Fact name="Requests in flight">{total("requestsInFlight")}</Fact>
        <Fact name="Requests waiting">
          {total("waiting")} ({bytesText(total("queuedBytes"))})
        </Fact>
        <Fact name="Server processes">{total("servers")}</Fact>
        <Fact name="Asks its clients">{asksSince === null ? "not yet" : `since ${timeText(asksSince)}`}</Fact>
        <Fact name="Sidecar runs for">{durationText(uptimeMs)}</Fact>
      </dl>
    </Section>
  );
}
