import type { Tool } from "@modelcontextprotocol/server";
import { setTimeout as delay } from "node:timers/promises";
import type { Adb } from "./adb.ts";
import type { App } from "./device.ts";
import { type Declaration, readManifest } from "./manifest.ts";
import type { Provider, Providers } from "./providers.ts";
import { cleanLine, log } from "./text.ts";
import { parseJson, prefixesOf, readToolList, toolName, type ToolSpec } from "./tool-list.ts";

const MAX_LIST_TIMEOUT_MS = 10_000;
/** The first list waits at most this long for all apps. */
const FIRST_LIST_MS = 5000;
const RETRY_MS = 30_000;
const MAX_APPS = 24;
/** One app cannot take all processes of adb. */
const MAX_PROVIDERS_OF_APP = 4;
const KNOWN_VERSION = "1";

/** A provider with its tools. They are empty until they are listed, and if they cannot be. */
interface Source extends Provider {
  readonly label: string;
  readonly specs: readonly ToolSpec[];
}

interface Entry {
  readonly app: App;
  sources: readonly Source[];
  readonly stop: AbortController;
  readonly startedAtMs: number;
  isFailed: boolean;
  loading: Promise<void>;
}

/** A tool as MCP clients see it, and its way to the app. */
export interface Offered {
  readonly provider: Source;
  readonly spec: ToolSpec;
  readonly tool: Tool;
}

/** The tools of all apps. It asks an app when it appears or is replaced, and again on request if that failed (CETP §3.3). */
export class Catalog {
  readonly #adb: Adb;
  readonly #providers: Providers;
  readonly #listTimeoutMs: number;
  readonly #onChange: () => void;
  readonly #entries = new Map<string, Entry>();
  readonly #firstLook = Promise.withResolvers<void>();
  #offered: ReadonlyMap<string, Offered> = new Map();
  #published = "[]";

  constructor(adb: Adb, providers: Providers, callTimeoutMs: number, onChange: () => void) {
    [this.#adb, this.#providers, this.#onChange] = [adb, providers, onChange];
    this.#listTimeoutMs = Math.min(callTimeoutMs, MAX_LIST_TIMEOUT_MS);
  }

  /** Finds a tool by the name that clients know. */
  async find(name: string): Promise<Offered | undefined> {
    if (!this.#offered.has(name)) await this.#firstListed();
    return this.#offered.get(name);
  }

  /** Lists the tools, in the order of their names. Asks apps again that have failed. */
  async list(): Promise<Tool[]> {
    await this.#firstListed();
    for (const { app, isFailed, startedAtMs } of this.#entries.values())
      if (isFailed && performance.now() - startedAtMs > RETRY_MS) this.reload(app.packageName);
    return [...this.#offered.values()].map(({ tool }) => tool);
  }

  #firstListed(): Promise<unknown> {
    return Promise.race([this.#firstLook.promise, delay(FIRST_LIST_MS, undefined, { ref: false })]);
  }

  /** Takes the apps of the device as they are now. */
  onApps(apps: readonly App[]): void {
    if (apps.length > MAX_APPS && this.#entries.size < MAX_APPS)
      log(`${apps.length} apps have tools: only those of ${MAX_APPS} are listed`);
    const present = new Map(apps.slice(0, MAX_APPS).map((app) => [app.packageName, app]));
    for (const [name, { app, stop }] of this.#entries) {
      if (present.get(name)?.path === app.path) continue;
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
    this.#providers.reset();
  }

  /** Asks an app for its tools again. */
  reload(packageName: string): void {
    const entry = this.#entries.get(packageName);
    if (entry === undefined) return;
    entry.stop.abort();
    this.#load(entry.app, entry.sources);
  }

  /** @param known what is offered until the app has answered. */
  #load(app: App, known: readonly Source[] = []): void {
    const stop = new AbortController();
    const entry: Entry = { app, sources: known, stop, startedAtMs: performance.now(), isFailed: false, loading: Promise.resolve() };
    this.#entries.set(app.packageName, entry);
    entry.loading = this.#sourcesOf(app, stop.signal)
      .catch((error: Error) => {
        entry.isFailed = true;
        if (!stop.signal.aborted) log(`${app.packageName} has no tools: ${error.message}`);
        return [];
      })
      .then((sources) => {
        if (stop.signal.aborted) return;
        entry.isFailed ||= sources.some(({ isFailed }) => isFailed);
        entry.sources = sources;
        this.#publish();
      });
  }

  async #sourcesOf(app: App, signal: AbortSignal): Promise<(Source & { readonly isFailed: boolean })[]> {
    const manifest = readManifest(
      await this.#adb.execOut(["unzip", "-p", app.path, "AndroidManifest.xml"], { timeoutMs: this.#listTimeoutMs, signal }),
    );
    for (const { authority } of manifest.rejected) log(`${app.packageName} names an authority that is not its own: ${authority}`);
    const declared = manifest.declarations.filter(({ service }) => app.services.has(service));
    const sources = [...new Map(declared.map((each) => [each.authority, each])).values()];
    if (sources.length > MAX_PROVIDERS_OF_APP) log(`${app.packageName} has ${sources.length} providers: ${MAX_PROVIDERS_OF_APP} are used`);
    return Promise.all(sources.slice(0, MAX_PROVIDERS_OF_APP).map((each) => this.#sourceOf(app.packageName, manifest.label, each, signal)));
  }

  async #sourceOf(packageName: string, label: string | undefined, { authority, version }: Declaration, signal: AbortSignal) {
    const provider = { packageName, authority };
    const options = { timeoutMs: this.#listTimeoutMs, signal };
    if (version !== KNOWN_VERSION)
      log(`${packageName} has the protocol version ${version ?? "(none)"}: its tools are used as in version ${KNOWN_VERSION}`);
    const answer = await this.#providers.call(provider, "list_tools", {}, options);
    const name = label ?? (await this.#nameOf(provider, options)) ?? packageName.split(".").at(-1) ?? packageName;
    try {
      if (answer.status === "error") throw new Error(`${cleanLine(answer.code, 40)}: ${answer.message}`);
      const { tools, problems } = readToolList(answer.data);
      for (const problem of problems) log(`${packageName}: ${problem}`);
      return { ...provider, label: name, specs: tools, isFailed: false };
    } catch (error) {
      if (!signal.aborted) log(`${authority} does not list its tools: ${(error as Error).message}`);
      return { ...provider, label: name, specs: [], isFailed: true };
    }
  }

  /** The label of most apps is a resource, which no command shows. Their provider may tell a name. */
  async #nameOf(provider: Provider, options: { readonly timeoutMs: number; readonly signal: AbortSignal }): Promise<string | undefined> {
    const answer = await this.#providers.call(provider, "get_provider_info", {}, options);
    const info = answer.status === "success" ? (parseJson(answer.data) as { provider_name?: unknown } | null | undefined) : undefined;
    return typeof info?.provider_name === "string" && info.provider_name.trim() !== "" ? info.provider_name : undefined;
  }

  #publish(): void {
    const sources = [...this.#entries.values()].flatMap((entry) => entry.sources);
    const prefixes = prefixesOf(new Map(sources.map(({ authority, label }) => [authority, label])));
    const offered = new Map<string, Offered>();
    for (const provider of sources) {
      for (const spec of provider.specs) {
        const name = toolName(prefixes.get(provider.authority) ?? "app", spec.name);
        if (!offered.has(name)) offered.set(name, { provider, spec, tool: describe(name, provider, spec) });
      }
    }
    this.#offered = new Map([...offered].sort(([one], [other]) => (one < other ? -1 : 1)));
    const published = JSON.stringify([...this.#offered.values()].map(({ tool }) => tool));
    if (published === this.#published) return;
    this.#published = published;
    log(`${this.#offered.size} tools of ${new Set([...offered.values()].map(({ provider }) => provider.packageName)).size} apps`);
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
