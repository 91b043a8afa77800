import type { JSX } from "preact";
import type { PageRequest } from "../http/page-update.ts";
import type { Numbered } from "./connection.ts";
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
