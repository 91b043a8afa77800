import type { JSX } from "preact";
import type { PageSecond } from "../../http/page/page-update.ts";
import { countText, durationText } from "../text/format.ts";
import { Chart, type ChartLine } from "./chart.tsx";

const COUNT_LINES: readonly ChartLine[] = [
  { label: "requests", color: "--line" },
  { label: "errors", color: "--bad" },
];
const LATENCY_LINES: readonly ChartLine[] = [
  { label: "mean", color: "--line" },
  { label: "longest", color: "--wait" },
];

/** Requests and latency of the last 120 seconds. */
export function Charts({ seconds }: { readonly seconds: readonly PageSecond[] }): JSX.Element {
  const times = seconds.map(({ at }) => Date.parse(at) / 1000);
  const requests = sum(seconds.map((second) => second.requests));
  const errors = sum(seconds.map((second) => second.errors));
  const longestMs = Math.max(0, ...seconds.map((second) => second.longestMs));
  const meanMs = requests === 0 ? 0 : sum(seconds.map((second) => second.meanMs * second.requests)) / requests;
  return (
    <section aria-labelledby="charts-title">
      <h2 id="charts-title">Last two minutes</h2>
      <div class="charts">
        <Chart
          title="Requests per second"
          summary={`${countText(requests, "request")}, ${countText(errors, "error")}`}
          lines={COUNT_LINES}
          times={times}
          values={[seconds.map((second) => second.requests), seconds.map((second) => second.errors)]}
        />
        <Chart
          title="Latency in ms"
          summary={requests === 0 ? "no requests" : `mean ${durationText(meanMs)}, longest ${durationText(longestMs)}`}
          lines={LATENCY_LINES}
          times={times}
          // A second without requests has no latency: the line has a gap there.
          values={[seconds.map((second) => latency(second, second.meanMs)), seconds.map((second) => latency(second, second.longestMs))]}
        />
      </div>
    </section>
  );
}

function latency({ requests }: PageSecond, ms: number): number | null {
  return requests === 0 ? null : ms;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
