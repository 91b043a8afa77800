import { collectDefaultMetrics, Registry } from "prom-client";
import { type MetricDefinition, type MetricName, METRICS } from "../observe/metrics.ts";
import { BOUNDS_SECONDS, type Sample } from "../observe/record.ts";

/** Gauges with the suffix of counters. Others have the same numbers by type. */
const MISNAMED = ["nodejs_active_handles_total", "nodejs_active_requests_total", "nodejs_active_resources_total"];

/**
 * Writes samples in the text format of Prometheus, with metrics of the process: CPU, memory, garbage collection and the delay of the event
 * loop. prom-client renders; the sidecar keeps its own numbers, so that nothing of this is loaded before the first scrape.
 */
export class Exposition {
  readonly #registry = new Registry();
  #samples: ReadonlyMap<MetricName, readonly Sample[]> = new Map();

  constructor() {
    collectDefaultMetrics({ register: this.#registry });
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name);
    for (const name of Object.keys(METRICS) as MetricName[]) {
      const { type, help }: MetricDefinition = METRICS[name];
      const get = (): object => ({ name, type, help, values: (this.#samples.get(name) ?? []).values().flatMap(valuesOf).toArray() });
      // Its type wants the class of a metric, but it uses no more than these members.
      this.#registry.registerMetric({ name, help, get, reset: () => undefined } as unknown as Parameters<Registry["registerMetric"]>[0]);
    }
  }

  /** The metrics of the process, for the documentation. */
  get processMetrics(): readonly { readonly name: string; readonly help: string }[] {
    return this.#registry.getMetricsAsArray().filter(({ name }) => !Object.hasOwn(METRICS, name));
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  async text(samples: Iterable<Sample>): Promise<string> {
    this.#samples = Map.groupBy(samples, ({ metric }) => metric);
    return this.#registry.metrics();
  }
}

/** Returns values in the form of prom-client. Prometheus takes an empty label for an absent one. */
function* valuesOf({ metric, labels: all = {}, value }: Sample): Generator<object> {
  const labels = Object.fromEntries(Object.entries(all).filter(([, text]) => text !== ""));
  if (typeof value === "number") yield { labels, value };
  else {
    for (const [index, bound] of BOUNDS_SECONDS.entries())
      yield { metricName: `${metric}_bucket`, labels: { ...labels, le: bound }, value: value.cumulative[index] ?? 0 };
    yield { metricName: `${metric}_bucket`, labels: { ...labels, le: "+Inf" }, value: value.count };
    yield { metricName: `${metric}_sum`, labels, value: value.sum };
    yield { metricName: `${metric}_count`, labels, value: value.count };
  }
}
