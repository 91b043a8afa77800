import type { Context } from "../context.ts";
import type { JsonObject } from "../mcp/message.ts";
import { type LogFields, logLimiter } from "../observe/log.ts";
import type { Descriptor, DescriptorTool } from "./descriptor.ts";
import { changedParts, compareTools, fingerprintOf, readableName, type ToolDrift } from "./drift.ts";

/** A server may change all of its tools at once. */
const MAX_LINES = 20;
const MAX_STATUS_TOOLS = 100;
/** Each private server may have a different drift. */
const MAX_PRIVATE_DRIFTS = 1000;

/** The drift of a tool. Its definitions are omitted, because they would stay in memory. */
interface KnownDrift extends Pick<ToolDrift, "name" | "kinds"> {
  readonly fingerprint: string;
}

/**
 * Compares servers' tools with the reviewed ones: name, description, input schema and annotations, in the form of the descriptor. It has no
 * other part of a tool.
 *
 * The drift of each tool is logged once, regardless of the number of lanes and restarts. It is logged again when it changes, or when it
 * returns after the shared lane had none.
 */
export class PinnedDescriptor {
  readonly #context: Context;
  readonly #descriptor: Descriptor;
  readonly #reviewed: ReadonlyMap<string, DescriptorTool>;
  /** A server may change its tools at any rate. */
  readonly #mayLog: () => boolean;
  /** The drift of the shared lane; undefined until its server has listed its tools. */
  #shared: readonly KnownDrift[] | undefined;
  /** The fingerprints that were logged: all of the shared lane, and those of private lanes since its last change. */
  #logged = new Set<string>();

  constructor(context: Context, descriptor: Descriptor) {
    this.#context = context;
    this.#descriptor = descriptor;
    this.#mayLog = logLimiter(context.nowMs);
    this.#reviewed = new Map(descriptor.tools.map((tool) => [tool.name, tool]));
  }

  /** True if a listed tool equals the reviewed one. */
  isPinned(tool: JsonObject): boolean {
    const { name } = tool;
    const reviewed = typeof name === "string" ? this.#reviewed.get(name) : undefined;
    return reviewed !== undefined && changedParts(reviewed, tool).length === 0;
  }

  /**
   * Compares all tools of a server. To be called at each start and after each change.
   *
   * @param fields log fields of the server, with `lane` for a private one.
   */
  onTools(tools: readonly JsonObject[], fields: LogFields): void {
    const drifts = compareTools(this.#descriptor.tools, tools).map((drift) => ({
      name: drift.name,
      kinds: drift.kinds,
      fingerprint: fingerprintOf(drift),
    }));
    this.#logNew(
      drifts.filter(({ fingerprint }) => !this.#logged.has(fingerprint)),
      fields,
    );
    if (fields["lane"] === undefined) this.#onShared(drifts, fields);
    else if (this.#logged.size >= MAX_PRIVATE_DRIFTS + (this.#shared?.length ?? 0)) this.#logged = fingerprintsOf(this.#shared);
    for (const { fingerprint } of drifts) this.#logged.add(fingerprint);
  }

  /** The drift of the shared lane, for `/status`. */
  get status(): object {
    const { config, secrets } = this.#context;
    const drift = (this.#shared ?? []).slice(0, MAX_STATUS_TOOLS);
    return {
      mode: config.descriptorMode,
      file: secrets.redact(config.descriptor ?? ""),
      reviewedTools: this.#reviewed.size,
      driftedTools: this.#shared?.length ?? null,
      drift: drift.map(({ name, kinds }) => ({ name: this.#shown(name), kinds })),
    };
  }

  #logNew(drifts: readonly KnownDrift[], fields: LogFields): void {
    const { log, config } = this.#context;
    const { descriptorMode: mode } = config;
    if (drifts.length === 0 || !this.#mayLog()) return;
    for (const { name, kinds } of drifts.slice(0, MAX_LINES)) {
      log.warn({ ...fields, tool: this.#shown(name), reason: kinds.join(", "), mode }, "tool differs from the descriptor");
    }
    if (drifts.length > MAX_LINES) log.warn({ ...fields, count: drifts.length - MAX_LINES, mode }, "more tools differ from the descriptor");
  }

  #onShared(drifts: readonly KnownDrift[], fields: LogFields): void {
    const before = this.#shared;
    this.#shared = drifts;
    const fingerprints = fingerprintsOf(drifts);
    if (fingerprintsOf(before).symmetricDifference(fingerprints).size > 0) this.#logged = fingerprints;
    const names = new Set(drifts.map(({ name }) => name));
    const gone = (before ?? []).filter(({ name }) => !names.has(name));
    const isClean = drifts.length === 0;
    if ((gone.length === 0 && !(before === undefined && isClean)) || !this.#mayLog()) return;
    const { log } = this.#context;
    if (isClean) return log.info({ ...fields, count: this.#reviewed.size }, "all tools match the descriptor");
    for (const { name } of gone.slice(0, MAX_LINES)) log.info({ ...fields, tool: this.#shown(name) }, "tool matches the descriptor again");
  }

  /** Makes a name readable and masks secrets in it, because the server chooses it. */
  #shown(name: string): string {
    return readableName(this.#context.secrets.redact(name));
  }
}

function fingerprintsOf(drifts: readonly KnownDrift[] = []): Set<string> {
  return new Set(drifts.map(({ fingerprint }) => fingerprint));
}
