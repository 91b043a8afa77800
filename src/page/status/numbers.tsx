import type { JSX } from "preact";
import type { PageLane, PageState } from "../../http/page/page-update.ts";
import { bytesText, durationText } from "../text/format.ts";
import { Text } from "../text/text.tsx";

/** The load and the memory of the sidecar. */
export function Numbers({ state }: { readonly state: PageState }): JSX.Element {
  const { memory, rssBytes, sessions, statelessClients, openStreams, uptimeMs } = state;
  const lanes = Object.entries(state.lanes).filter(
    ([name, lane]) => name === "shared" || lane.servers > 0 || lane.requestsInFlight > 0 || lane.waiting > 0,
  );
  return (
    <section aria-labelledby="numbers-title">
      <h2 id="numbers-title">Load</h2>
      <dl class="numbers">
        <Figure name="Sessions" value={String(sessions)} />
        <Figure name="Clients without a session" value={String(statelessClients)} />
        <Figure name="Open streams" value={String(openStreams)} />
        <Figure name="Resident memory" value={bytesText(rssBytes)} />
        <Figure name="Sidecar runs for" value={durationText(uptimeMs)} />
        <div>
          <dt id="memory-name">Memory budget</dt>
          <dd>
            {bytesText(memory.usedBytes)} of {bytesText(memory.limitBytes)}
            <meter aria-labelledby="memory-name" min={0} max={memory.limitBytes} high={memory.limitBytes * 0.8} value={memory.usedBytes} />
          </dd>
        </div>
      </dl>
      {lanes.length > 0 && <Lanes lanes={lanes} />}
    </section>
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Lanes({ lanes }: { readonly lanes: readonly (readonly [string, PageLane])[] }): JSX.Element {
  return (
    <table class="lanes">
      <caption>Lanes</caption>
      <thead>
        <tr>
          <th scope="col">Lane</th>
          <th scope="col">In flight</th>
          <th scope="col">Waiting</th>
          <th scope="col">Queued</th>
          <th scope="col">Processes</th>
        </tr>
      </thead>
      <tbody>
        {lanes.map(([name, { requestsInFlight, waiting, queuedBytes, servers }]) => (
          <tr key={name}>
            <th scope="row">
              <Text of={name} />
            </th>
            <td>{requestsInFlight}</td>
            <td>{waiting}</td>
            <td>{bytesText(queuedBytes)}</td>
            <td>{servers}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
