import { type HttpBindings, serve } from "@hono/node-server";
import { Hono } from "hono";
import { EventEmitter, once } from "node:events";
import type { AddressInfo } from "node:net";
import { type ScriptedReply, type Script, type ScriptedModel, startScriptedModel } from "../src/demo/scripted-model.ts";
import { type Mediator, startMediator } from "../src/mediate/server.ts";
import type { Trace } from "../src/mediate/trace.ts";
import { readWhere, waitForHanging } from "../../../test/support/fixture-server.ts";
import { Sidecar, type StartOptions } from "../../../test/support/sidecar.ts";
import { descriptorPath, PodFolder, TRADING_DESCRIPTOR, TRADING_POD } from "./pod-folder.ts";

const MCP_TOOLS = ["echo", "add", "hang", "where"];

let shared: Promise<Sidecar> | undefined;

/** Must be called after the tests of a file. */
export async function stopSharedSidecar(): Promise<void> {
  await (await shared)?.[Symbol.asyncDispose]();
  shared = undefined;
}

interface BenchOptions {
  readonly script: Script;
  /** A sidecar of the test's own. The default is one for all tests of a file. */
  readonly sidecar?: StartOptions;
  readonly policy?: string;
  readonly keepAliveMs?: number;
  readonly modelKey?: string;
  readonly host?: string;
  readonly allowedHosts?: readonly string[];
  /** A server in place of the sidecar. */
  readonly mcpUrl?: string;
  /** Names of tools that the descriptor of the MCP server has besides. */
  readonly moreTools?: readonly string[];
}

/** A model, a proxy, a service over HTTP, and a sidecar with a server. The agents are analyst, and plain without tools. */
export class Bench implements AsyncDisposable {
  readonly model: ScriptedModel;
  readonly mediator: Mediator;
  readonly sidecar: Sidecar;
  readonly folder: PodFolder;
  readonly traces: Trace[];
  /** The requests of the service, as METHOD PATH BODY. */
  readonly served: string[];
  readonly #stack: AsyncDisposableStack;
  readonly #events: EventEmitter;

  private constructor(
    parts: Pick<Bench, "model" | "mediator" | "sidecar" | "folder" | "traces" | "served">,
    events: EventEmitter,
    stack: AsyncDisposableStack,
  ) {
    ({ model: this.model, mediator: this.mediator, sidecar: this.sidecar, folder: this.folder } = parts);
    [this.traces, this.served, this.#events, this.#stack] = [parts.traces, parts.served, events, stack];
  }

  /** Resolves when this number of requests is in the trace. */
  async traced(count: number): Promise<void> {
    while (this.traces.length < count) await once(this.#events, "traced");
  }

  static async start({
    script,
    sidecar: sidecarOptions,
    policy = "",
    keepAliveMs,
    modelKey,
    host = "127.0.0.1",
    allowedHosts = [],
    mcpUrl,
    moreTools = [],
  }: BenchOptions): Promise<Bench> {
    await using stack = new AsyncDisposableStack();
    const sidecar = sidecarOptions === undefined ? await (shared ??= Sidecar.start()) : stack.use(await Sidecar.start(sidecarOptions));
    const model = stack.use(await startScriptedModel(script));
    const served: string[] = [];
    const serviceUrl = await startService(served, stack);
    const pod = `${TRADING_POD.replace("allow:\n            - get_market_context   # read-only access", `allow: all\n        - service: tools\n          allow: all${policy}`)}
  plain:
    x-claw:
      cllama: passthrough
  tools:
    x-claw:
      describe-file: tools.json
      mcp-stdio: { command: node }
`;
    const descriptor = {
      version: 2,
      mcp: { transport: "streamable_http", path: "/mcp" },
      tools: [...MCP_TOOLS, ...moreTools].map((name) => ({ name, inputSchema: { type: "object" } })),
    };
    const folder = stack.use(new PodFolder(pod, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR, "tools.json": descriptor }));
    folder.build({ TRADING_API_TOKEN: "service-token" }, { "trading-api": serviceUrl, tools: mcpUrl ?? sidecar.origin });
    const traces: Trace[] = [];
    const events = new EventEmitter();
    const mediator = stack.use(
      await startMediator({
        contextFolder: folder.contextFolder,
        modelUrl: model.url,
        modelKey,
        host,
        allowedHosts,
        port: 0,
        ...(keepAliveMs === undefined ? {} : { keepAliveMs }),
        onTrace: (line) => {
          traces.push(JSON.parse(line) as Trace);
          events.emit("traced");
        },
        warn: () => undefined,
      }),
    );
    return new Bench({ model, mediator, sidecar, folder, traces, served }, events, stack.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

async function startService(served: string[], stack: AsyncDisposableStack): Promise<string> {
  const app = new Hono<{ Bindings: HttpBindings }>();
  app.all("/api/v1/*", async (context) => {
    const { method } = context.req;
    const { pathname, search } = new URL(context.req.url);
    served.push([method, pathname + search, await context.req.text()].join(" ").trim());
    if (context.req.header("authorization") !== "Bearer service-token") return context.json({ error: "no token" }, 401);
    if (pathname.endsWith("/cut")) context.env.outgoing.destroy();
    if (pathname.endsWith("/broke")) return context.json({ error: "no such agent" }, 404);
    if (pathname.endsWith("/explained")) return context.json({ error: "x".repeat(30_000) }, 500);
    if (pathname.endsWith("/deep"))
      return context.body("[".repeat(200_000) + "]".repeat(200_000), 200, { "Content-Type": "application/json" });
    if (pathname.endsWith("/huge")) return context.text("x".repeat(5 * 1024 * 1024));
    if (pathname.endsWith("/large")) return context.json({ positions: "é".repeat(100_000) });
    return context.json({ balance: 50_000 });
  });
  const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 });
  await once(server, "listening");
  stack.defer(() => void server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Says one thing after another. */
export function sequence(...said: readonly ScriptedReply[]): Script {
  return (_body, count) => said[count] ?? { text: "the script has ended" };
}

/** Kills the server when it has got a call that it does not answer. */
export async function killDuringCall({ sidecar }: Bench): Promise<void> {
  const client = await sidecar.client();
  await waitForHanging(client, 1);
  const { pid } = await readWhere(client);
  process.kill(pid, "SIGKILL");
}
