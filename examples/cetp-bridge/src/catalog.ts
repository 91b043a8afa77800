import type { Tool } from "@modelcontextprotocol/server";
import { setTimeout as delay } from "node:timers/promises";
import PQueue from "p-queue";
import { type Adb, deadline } from "./adb.ts";
import type { App } from "./device.ts";
import { log, logFirst } from "./log.ts";
import { MAX_MANIFEST_BYTES, readManifest } from "./manifest.ts";
import type { Provider, Providers } from "./providers.ts";
import { cleanLine } from "./text.ts";
import { readToolList, type ToolSpec } from "./tool-list.ts";
import { prefixesOf, toolName } from "./tool-names.ts";

const MAX_LIST_TIMEOUT_MS = 10_000;
/** The first list waits at most this long for all apps. */
const FIRST_LIST_TIMEOUT_MS = 5000;
/** An app is not asked for its tools again within this time. */
const RELOAD_INTERVAL_MS = 10_000;
const MAX_APPS = 24;
/** Apps that are asked for their tools at a time. */
const MAX_LOADS = 4;
const KNOWN_VERSION = "1";

/** The provider of an app with its tools. */
interface Source extends Provider {
  readonly label: string;
  readonly specs: readonly ToolSpec[];
}

interface Entry {
  readonly app: App;
  readonly stop: AbortController;
  readonly startedAtMs: number;
  /** Until the app has answered, and if it does not: what was known of it. */
  source: Source | undefined;
  isFailed: boolean;
  loading: Promise<void>;
}

/** A tool as MCP clients see it, and its way to the app. */
export interface OfferedTool {
  readonly provider: Source;
  readonly spec: ToolSpec;
  readonly tool: Tool;
}

/** The tools of all apps. It asks an app when it appears or is replaced, and again on request if that failed (CETP §3.3). */
export class Catalog {
  /** True until the first look at the device, and after it was lost. */
  isLost = true;
  readonly #adb: Adb;
  readonly #providers: Providers;
  readonly #listTimeoutMs: number;
  readonly #onChange: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #loads = new PQueue({ concurrency: MAX_LOADS });
  readonly #firstLook = Promise.withResolvers<void>();
  #offered: ReadonlyMap<string, OfferedTool> = new Map();
  #published = "[]";

  constructor(adb: Adb, providers: Providers, callTimeoutMs: number, onChange: () => void) {
    [this.#adb, this.#providers, this.#onChange] = [adb, providers, onChange];
    this.#listTimeoutMs = Math.min(callTimeoutMs, MAX_LIST_TIMEOUT_MS);
  }

  /** Finds a tool by the name that clients know. */
  async find(name: string): Promise<OfferedTool | undefined> {
    if (!this.#offered.has(name)) await this.#firstListed();
    return this.#offered.get(name);
  }

  /** Lists the tools, in the order of their names. Asks apps again that have failed. */
  async list(): Promise<Tool[]> {
    await this.#firstListed();
    for (const { app, isFailed } of this.#entries.values()) if (isFailed) this.reload(app.packageName);
    return [...this.#offered.values()].map(({ tool }) => tool);
  }

  #firstListed(): Promise<unknown> {
    return Promise.race([this.#firstLook.promise, delay(FIRST_LIST_TIMEOUT_MS, undefined, { ref: false })]);
  }

  /** Takes the apps of the device as they are now. */
  onApps(apps: readonly App[]): void {
    this.isLost = false;
    if (apps.length > MAX_APPS && this.#entries.size < MAX_APPS)
      log(`${apps.length} apps have tools: only those of ${MAX_APPS} are listed`);
    const present = new Map(apps.slice(0, MAX_APPS).map((app) => [app.packageName, app]));
    for (const [name, { app, stop }] of this.#entries) {
      const now = present.get(name);
      if (now?.path === app.path && now.services.symmetricDifference(app.services).size === 0) continue;
      stop.abort();
      this.#entries.delete(name);
    }
    for (const [name, app] of present) if (!this.#entries.has(name)) this.#load(app);
    this.#publish();
    const loads = [...this.#entries.values()].map(({ loading }) => loading);
    void Promise.all(loads).then(() => this.#firstLook.resolve());
  }

  onLost(): void {
    this.onApps([]);
    this.isLost = true;
    this.#providers.reset();
  }

  /** Asks an app for its tools again, unless it was asked a short time ago. */
  reload(packageName: string): void {
    const entry = this.#entries.get(packageName);
    if (entry === undefined || performance.now() - entry.startedAtMs < RELOAD_INTERVAL_MS) return;
    entry.stop.abort();
    this.#load(entry.app, entry.source);
  }

  #load(app: App, known?: Source): void {
    const stop = new AbortController();
    const { signal } = stop;
    const entry: Entry = { app, source: known, stop, startedAtMs: performance.now(), isFailed: false, loading: Promise.resolve() };
    this.#entries.set(app.packageName, entry);
    entry.loading = this.#loads
      .add(() => this.#sourceOf(app, deadline(this.#listTimeoutMs, signal)), { signal })
      .then((source) => {
        if (signal.aborted) return;
        entry.source = source;
        this.#publish();
      })
      .catch((error: Error) => {
        entry.isFailed = true;
        if (!signal.aborted) log(`${app.packageName} does not list its tools: ${error.message}`);
      });
  }

  /** @returns undefined if the app has no provider. @throws {Error} if it cannot be asked. */
  async #sourceOf({ packageName, path, services }: App, signal: AbortSignal): Promise<Source | undefined> {
    const manifest = readManifest(await this.#adb.execOut(["unzip", "-p", path, "AndroidManifest.xml"], signal, MAX_MANIFEST_BYTES));
    logFirst(manifest.rejected.map(({ authority }) => `${packageName} names an authority that is not its own: ${authority}`));
    const [first, ...others] = manifest.declarations.filter(({ service }) => services.has(service));
    logFirst(others.map(({ authority }) => `${packageName} has more than one provider, and only its first is used: not ${authority}`));
    if (first === undefined) return undefined;
    const provider = { packageName, authority: first.authority };
    if (first.version !== KNOWN_VERSION)
      log(`${packageName} has the protocol version ${first.version ?? "(none)"}: its tools are used as in version ${KNOWN_VERSION}`);
    const answer = await this.#providers.ask(provider, "list_tools", signal);
    if (answer.status === "error") throw new Error(`${cleanLine(answer.code, 40)}: ${answer.message}`);
    const { tools, problems } = readToolList(answer.value);
    logFirst(problems.map((problem) => `${packageName}: ${problem}`));
    const label = manifest.label ?? (await this.#nameOf(provider, signal)) ?? packageName.split(".").at(-1) ?? packageName;
    return { ...provider, label, specs: tools };
  }

  /** The label of most apps is a resource, which no command shows. Their provider may tell a name. */
  async #nameOf(provider: Provider, signal: AbortSignal): Promise<string | undefined> {
    const answer = await this.#providers.ask(provider, "get_provider_info", signal);
    const info = answer.status === "success" ? (answer.value as { provider_name?: unknown } | null | undefined) : undefined;
    return typeof info?.provider_name === "string" && info.provider_name.trim() !== "" ? info.provider_name : undefined;
  }

  #publish(): void {
    const all = [...this.#entries.values()].flatMap(({ source }) => source ?? []);
    // Android gives an authority to one package. If two seem to have it, a manifest was misread.
    const sources = [...Map.groupBy(all, ({ authority }) => authority).values()].flatMap((each) => (each.length === 1 ? each : []));
    const prefixes = prefixesOf(new Map(sources.map(({ packageName, label }) => [packageName, label])));
    const offered = new Map<string, OfferedTool>();
    for (const provider of sources) {
      for (const spec of provider.specs) {
        const name = toolName(prefixes.get(provider.packageName) ?? "app", spec.name);
        if (!offered.has(name)) offered.set(name, { provider, spec, tool: describe(name, provider, spec) });
      }
    }
    this.#offered = new Map([...offered].sort(([one], [other]) => (one < other ? -1 : 1)));
    const published = JSON.stringify([...this.#offered.values()].map(({ tool }) => tool));
    if (published === this.#published) return;
    this.#published = published;
    log(`${this.#offered.size} tools of ${sources.length} apps`);
    this.#onChange();
  }
}

/** The title names the package, so that no description can claim to come from another app. */
function describe(name: string, { packageName, label }: Source, { name: own, description, parameters }: ToolSpec): Tool {
  return {
    name,
    title: `${cleanLine(label, 40)}: ${cleanLine(own, 60)} (${packageName})`,
    description,
    inputSchema: parameters as Tool["inputSchema"],
    annotations: { readOnlyHint: true },
  };
}
