import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import Plot from "uplot";
import { HISTORY_LIMITS, type PageSecond, type PageState } from "../http/page-update.ts";
import { bytesText, countText, durationText, timeText } from "./format.ts";
import { Fact, Section, Table, Text } from "./text.tsx";

const HEIGHT = 140;
const AXIS_WIDTH = 46;
const AXIS_HEIGHT = 26;

interface Props {
  readonly title: string;
  /** The text alternative. */
  readonly summary: string;
  /** `color` is a custom property of the style sheet. There is a value for each time; null for a gap. */
  readonly lines: readonly { readonly label: string; readonly color: string; readonly values: readonly (number | null)[] }[];
  /** In seconds since the epoch. */
  readonly times: readonly number[];
}

/** A small line chart with a legend and a text alternative. */
function Chart({ title, summary, lines, times }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const data: Plot.AlignedData = [[...times], ...lines.map(({ values }) => [...values])];
  // Set by the effect below, which runs first.
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const created = new Plot(chartOptions(element, lines), latest.current, element);
    plot.current = created;
    const observer = new ResizeObserver(() => created.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      created.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [times.at(-1), times.length]);

  return (
    <figure>
      <figcaption>
        <b>{title}</b>: {summary}
        <span class="legend" aria-hidden="true">
          {lines.map(({ label, color }) => (
            <span key={label} class={`key ${color.slice(2)}`}>
              {label}
            </span>
          ))}
        </span>
      </figcaption>
      <div class="chart" ref={box} aria-hidden="true" />
    </figure>
  );
}

function chartOptions(element: HTMLElement, lines: Props["lines"]): Plot.Options {
  const style = getComputedStyle(element);
  // A function, because each drawing has the colours of the present scheme.
  const color = (name: string) => (): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: color("--dim"),
    grid: { stroke: color("--edge"), width: 1 },
    ticks: { show: false },
    font: "12px system-ui, sans-serif",
  };
  return {
    width: element.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    select: { show: false, left: 0, top: 0, width: 0, height: 0 },
    scales: {
      x: { time: true, range: (_plot, _min, max) => [max - HISTORY_LIMITS.seconds, max] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [
      {
        ...axis,
        size: AXIS_HEIGHT,
        values: (_plot, splits) => splits.map((second) => new Date(second * 1000).toLocaleTimeString("en-GB").slice(0, 8)),
        space: 70,
      },
      { ...axis, size: AXIS_WIDTH },
    ],
    series: [
      {},
      ...lines.map(({ label, color: name }) => ({
        label,
        stroke: color(name),
        width: 1.5,
        points: { show: true, size: 4, fill: color(name) },
      })),
    ],
  };
}

/** Requests and latency of the last 120 seconds. */
export function Charts({ seconds }: { readonly seconds: readonly PageSecond[] }): JSX.Element {
  const times = seconds.map(({ number }) => number);
  const total = (of: (second: PageSecond) => number): number => seconds.reduce((sum, second) => sum + of(second), 0);
  const requests = total((second) => second.requests);
  const errors = total((second) => second.errors);
  const timed = total((second) => second.timed);
  const longestMs = Math.max(0, ...seconds.map((second) => second.longestMs));
  const totalMs = total((second) => second.totalMs);
  return (
    <Section id="charts" title="Last two minutes">
      <div class="charts">
        <Chart
          title="Requests per second"
          summary={`${countText(requests, "request")}, ${countText(errors, "error")}`}
          times={times}
          lines={[
            { label: "requests", color: "--line", values: seconds.map((second) => second.requests) },
            { label: "errors", color: "--bad", values: seconds.map((second) => second.errors) },
          ]}
        />
        <Chart
          title="Latency in ms"
          summary={timed === 0 ? "no requests" : `mean ${durationText(totalMs / timed)}, longest ${durationText(longestMs)}`}
          times={times}
          // A second without a latency is a gap in the line.
          lines={[
            {
              label: "mean",
              color: "--line",
              values: seconds.map((second) => (second.timed === 0 ? null : second.totalMs / second.timed)),
            },
            { label: "longest", color: "--wait", values: seconds.map((second) => (second.timed === 0 ? null : second.longestMs)) },
          ]}
        />
      </div>
    </Section>
  );
}

export function Numbers({ state }: { readonly state: PageState }): JSX.Element {
  const { asksSince, memory, rssBytes, sessions, stateless, openStreams, uptimeMs } = state;
  const lanes = Object.entries(state.lanes).filter(
    ([name, lane]) => name === "shared" || lane.servers > 0 || lane.requestsInFlight > 0 || lane.waiting > 0,
  );
  const figures = {
    Sessions: sessions,
    "Clients without a session": stateless?.clients ?? 0,
    "Open streams": openStreams,
    "Asks its clients": asksSince === null ? "not yet" : `since ${timeText(asksSince)}`,
    "Resident memory": bytesText(rssBytes),
    "Sidecar runs for": durationText(uptimeMs),
  };
  return (
    <Section id="numbers" title="Load">
      <dl class="numbers">
        {Object.entries(figures).map(([name, value]) => (
          <div key={name}>
            <Fact name={name}>{value}</Fact>
          </div>
        ))}
        <div>
          <dt id="memory-name">Memory budget</dt>
          <dd>
            {bytesText(memory.usedBytes)} of {bytesText(memory.limitBytes)}
            <meter aria-labelledby="memory-name" min={0} max={memory.limitBytes} high={memory.limitBytes * 0.8} value={memory.usedBytes} />
          </dd>
        </div>
      </dl>
      {lanes.length > 0 && (
        <Table caption="Lanes" columns={["Lane", "In flight", "Waiting", "Queued", "Processes"]} kind="lanes">
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
        </Table>
      )}
    </Section>
  );
}
