import type { Context } from "../context.ts";
import type { JsonObject } from "../mcp/message.ts";
import { type LogFields, logLimiter } from "../observe/log.ts";
import type { Descriptor, DescriptorTool } from "./descriptor.ts";
import { changedParts, compareTools, fingerprintOf, type DriftKind, readableName, type ToolDrift } from "./drift.ts";

/** A server may change all of its tools at once. */
const MAX_LINES = 20;
const MAX_STATUS_TOOLS = 100;
/** Each private server may have a different drift. */
const MAX_PRIVATE_DRIFTS = 1000;

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
  #drifted: readonly { readonly name: string; readonly kinds: readonly DriftKind[] }[] | undefined;
  /** The fingerprints of the shared lane's drift, by tool. */
  #fingerprints: ReadonlyMap<string, string> = new Map();
  /** The fingerprints that were logged for private lanes since the last change in the shared one. */
  readonly #privateFingerprints = new Set<string>();

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
    const drifts = compareTools(this.#descriptor.tools, tools);
    const fingerprints = new Map(drifts.map((drift) => [drift.name, fingerprintOf(drift)]));
    this.#logFresh(drifts, fingerprints, fields);
    if (fields["lane"] !== undefined) return this.#keepPrivate(fingerprints);
    this.#logGone(fingerprints, fields);
    this.#keepShared(drifts, fingerprints);
  }

  /** The drift of the shared lane, for `/status`. */
  get status(): object {
    const { config, secrets } = this.#context;
    const drift = (this.#drifted ?? []).slice(0, MAX_STATUS_TOOLS);
    return {
      mode: config.descriptorMode,
      file: secrets.redact(config.descriptor ?? ""),
      reviewedTools: this.#reviewed.size,
      driftedTools: this.#drifted?.length ?? null,
      drift: drift.map(({ name, kinds }) => ({ name: this.#shown(name), kinds })),
    };
  }

  #logFresh(drifts: readonly ToolDrift[], fingerprints: ReadonlyMap<string, string>, fields: LogFields): void {
    const { log, config } = this.#context;
    const { descriptorMode: mode } = config;
    const fresh = drifts.filter(({ name }) => {
      const fingerprint = fingerprints.get(name) ?? "";
      return this.#fingerprints.get(name) !== fingerprint && !this.#privateFingerprints.has(fingerprint);
    });
    if (fresh.length === 0 || !this.#mayLog()) return;
    for (const { name, kinds } of fresh.slice(0, MAX_LINES)) {
      log.warn({ ...fields, tool: this.#shown(name), reason: kinds.join(", "), mode }, "tool differs from the descriptor");
    }
    if (fresh.length > MAX_LINES) log.warn({ ...fields, count: fresh.length - MAX_LINES, mode }, "more tools differ from the descriptor");
  }

  #logGone(fingerprints: ReadonlyMap<string, string>, fields: LogFields): void {
    const { log } = this.#context;
    const gone = [...this.#fingerprints.keys()].filter((name) => !fingerprints.has(name));
    const isClean = fingerprints.size === 0;
    const isFirst = this.#drifted === undefined;
    if (gone.length === 0 && !(isFirst && isClean)) return;
    if (!this.#mayLog()) return;
    if (isClean) return log.info({ ...fields, count: this.#reviewed.size }, "all tools match the descriptor");
    for (const name of gone.slice(0, MAX_LINES)) log.info({ ...fields, tool: this.#shown(name) }, "tool matches the descriptor again");
  }

  #keepShared(drifts: readonly ToolDrift[], fingerprints: ReadonlyMap<string, string>): void {
    const before = this.#fingerprints;
    const isSame = before.size === fingerprints.size && before.keys().every((name) => before.get(name) === fingerprints.get(name));
    if (!isSame) this.#privateFingerprints.clear();
    this.#fingerprints = fingerprints;
    // The definitions are omitted, because they would stay in memory.
    this.#drifted = drifts.map(({ name, kinds }) => ({ name, kinds }));
  }

  #keepPrivate(fingerprints: ReadonlyMap<string, string>): void {
    for (const fingerprint of fingerprints.values()) {
      if (this.#privateFingerprints.size >= MAX_PRIVATE_DRIFTS) this.#privateFingerprints.clear();
      this.#privateFingerprints.add(fingerprint);
    }
  }

  /** Makes a name readable and masks secrets in it, because the server chooses it. */
  #shown(name: string): string {
    return readableName(this.#context.secrets.redact(name));
  }
}
