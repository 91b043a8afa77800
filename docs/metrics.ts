import prometheus from "prom-client";
import { createRegistry, METRICS } from "../src/http/metrics.ts";

/** Returns the tables of all metrics, made of their definitions. */
export function metricsMarkdown(): string {
  const own = Object.entries(METRICS).map(
    ([name, { type, labels, help }]) => `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(", ") || "–"} | ${help} |`,
  );
  const registry = createRegistry(prometheus, () => []);
  const ofProcess = registry.getMetricsAsArray().filter(({ name }) => !Object.hasOwn(METRICS, name));
  return [
    "| metric | type | labels | meaning |",
    "| --- | --- | --- | --- |",
    ...own,
    "",
    "[prom-client](https://github.com/siimon/prom-client) adds these about the process, from the first request for `/metrics` on.",
    `${ofProcess.map(({ name }) => `\`${name}\``).join(", ")}.`,
  ].join("\n");
}
