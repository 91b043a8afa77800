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
  const timed = sum(seconds.map((second) => second.timed));
  const longestMs = Math.max(0, ...seconds.map((second) => second.longestMs ?? 0));
  const totalMs = sum(seconds.map((second) => (second.meanMs ?? 0) * second.timed));
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
          summary={timed === 0 ? "no requests" : `mean ${durationText(totalMs / timed)}, longest ${durationText(longestMs)}`}
          lines={LATENCY_LINES}
          times={times}
          // A second without a latency is a gap in the line.
          values={[seconds.map((second) => second.meanMs), seconds.map((second) => second.longestMs)]}
        />
      </div>
    </section>
  );
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
