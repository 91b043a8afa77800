import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import Plot from "uplot";
import { HISTORY_LIMITS } from "../../http/page/page-update.ts";

const HEIGHT = 140;
const AXIS_WIDTH = 46;
const AXIS_HEIGHT = 26;

export interface ChartLine {
  readonly label: string;
  /** A custom property of the style sheet. */
  readonly color: string;
}

interface Props {
  readonly title: string;
  /** The text alternative. */
  readonly summary: string;
  readonly lines: readonly ChartLine[];
  /** In seconds since the epoch. */
  readonly times: readonly number[];
  /** For each line, a value for each time; null for a gap. */
  readonly values: readonly (readonly (number | null)[])[];
}

/** A small line chart with a legend and a text alternative. */
export function Chart({ title, summary, lines, times, values }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<Plot>(undefined);
  const isDark = useIsDark();
  const data: Plot.AlignedData = [[...times], ...values.map((each) => [...each])];
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
    // The colours of the canvas are those of the scheme in which it is created.
  }, [lines, isDark]);
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

function chartOptions(element: HTMLElement, lines: readonly ChartLine[]): Plot.Options {
  const style = getComputedStyle(element);
  const color = (name: string): string => style.getPropertyValue(name).trim();
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

function useIsDark(): boolean {
  const query = matchMedia("(prefers-color-scheme: dark)");
  const [isDark, setIsDark] = useState(query.matches);
  useEffect(() => {
    const update = (): void => setIsDark(query.matches);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, []);
  return isDark;
}
