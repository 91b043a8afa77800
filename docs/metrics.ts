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
    "These are about the process of the sidecar, by [prom-client](https://github.com/siimon/prom-client). They begin with the first request for `/metrics`.",
    "",
    "| metric | meaning |",
    "| --- | --- |",
    ...ofProcess.map(({ name, help }) => `| \`${name}\` | ${help} |`),
  ].join("\n");
}
