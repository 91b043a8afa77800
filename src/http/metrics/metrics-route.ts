import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Sample } from "../../observability/metrics/definitions.ts";
import { sendDefect, sendJson } from "../json-response.ts";
import { discardBody } from "../reject.ts";
import type { Route } from "../route.ts";
import type { ServerStatus } from "../status-route.ts";
import type { Exposition } from "./exposition.ts";
import { stateSamples } from "./state-samples.ts";

export interface MetricsRouteOptions {
  readonly version: string;
  readonly status: () => ServerStatus;
  readonly memory: Pick<MemoryBudget, "status">;
  /** Returns the metrics of requests. */
  readonly requestSamples: () => Iterable<Sample>;
  readonly defects: Pick<Defects, "recover">;
}

/** Creates the route of `/metrics`, in the text format of Prometheus (docs/METRICS.md). */
export function createMetricsRoute(options: MetricsRouteOptions): Route {
  const { defects } = options;
  let exposition: Promise<Exposition> | undefined;

  return (request, response) => {
    discardBody(request);
    exposition ??= loadExposition();
    exposition
      .then(async (loaded) => sendJson(response, 200, await loaded.text(allSamples(options)), headersOf(loaded)))
      .catch((error: unknown) => defects.recover("metrics", error, () => sendDefect(response, false)));
  };
}

async function loadExposition(): Promise<Exposition> {
  const { Exposition: Loaded } = await import("./exposition.ts");
  return new Loaded();
}

function headersOf({ contentType }: Exposition): Readonly<Record<string, string>> {
  return { "Content-Type": contentType, "Cache-Control": "no-store" };
}

function* allSamples({ version, status, memory, requestSamples }: MetricsRouteOptions): Generator<Sample> {
  yield { metric: "claw_mcp_stdio_build_info", labels: { version, node: process.version }, value: 1 };
  yield* requestSamples();
  yield* stateSamples(status(), memory.status);
}
