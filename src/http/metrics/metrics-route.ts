import type { MemoryBudget } from "../../memory/memory-budget.ts";
import type { Defects } from "../../observability/defects.ts";
import type { Sample } from "../../observability/metrics/definitions.ts";
import { sendDefect } from "../json-response.ts";
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
  readonly nowMs: () => number;
}

/** A text is sent again until this many times its rendering time has passed. So rendering takes a tenth of the time at most. */
const REUSE_FACTOR = 10;

/** A rendered text. Responses share its bytes, so those that are not read take no more memory. */
interface Rendering {
  readonly bytes: Buffer;
  readonly contentType: string;
  readonly usableUntilMs: number;
}

/** Creates the route of `/metrics`, in the text format of Prometheus (docs/METRICS.md). */
export function createMetricsRoute(options: MetricsRouteOptions): Route {
  const { defects, nowMs } = options;
  let exposition: Exposition | undefined;
  let rendering: Promise<Rendering> | undefined;
  let usableUntilMs = Number.NEGATIVE_INFINITY;

  return (request, response) => {
    discardBody(request);
    if (rendering === undefined || nowMs() >= usableUntilMs) {
      // Until it is rendered, all requests wait for it.
      usableUntilMs = Number.POSITIVE_INFINITY;
      rendering = render();
      rendering.then(
        (rendered) => (usableUntilMs = rendered.usableUntilMs),
        () => (usableUntilMs = Number.NEGATIVE_INFINITY),
      );
    }
    rendering
      .then(({ bytes, contentType }) => {
        if (response.headersSent || response.destroyed) return;
        response.writeHead(200, { "Content-Type": contentType, "Content-Length": bytes.length, "Cache-Control": "no-store" });
        response.end(bytes);
      })
      .catch((error: unknown) => defects.recover("metrics", error, () => sendDefect(response, false)));
  };

  async function render(): Promise<Rendering> {
    exposition ??= new (await import("./exposition.ts")).Exposition();
    const startedAtMs = nowMs();
    const text = await exposition.text(allSamples(options));
    const renderedAtMs = nowMs();
    return {
      bytes: Buffer.from(text),
      contentType: exposition.contentType,
      usableUntilMs: renderedAtMs + (renderedAtMs - startedAtMs) * REUSE_FACTOR,
    };
  }
}

function* allSamples({ version, status, memory, requestSamples }: MetricsRouteOptions): Generator<Sample> {
  yield { metric: "claw_mcp_stdio_build_info", labels: { version, node: process.version }, value: 1 };
  yield* requestSamples();
  yield* stateSamples(status(), memory.status);
}
