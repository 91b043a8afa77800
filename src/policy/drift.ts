import { createHash } from "node:crypto";
import type { Context } from "../context.ts";
import { beginning, escapeInvisible, isInsidePair, shorten } from "../json/text.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import { type LogFields, logLimiter } from "../observe/log.ts";
import { type Descriptor, type DescriptorTool, sortKeys, storedParts } from "./descriptor.ts";

const SIMPLE_KEY = /^[\w$-]+$/;

/** Yields them in sorted order, so that the result is stable. Goes no deeper than `before`, whose levels are limited. */
function* findDifferences(path: string, before: unknown, after: unknown): Generator<string> {
  const areLists = Array.isArray(before) && Array.isArray(after);
  if (!(areLists || (isJsonObject(before) && isJsonObject(after)))) {
    if (before !== after) yield describeDifference(path, before, after);
    return;
  }
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  for (const key of areLists ? keys : keys.sort()) {
    const [was, is] = [before, after].map((side) => (Object.hasOwn(side, key) ? (side as JsonObject)[key] : undefined));
    const step = areLists ? `[${key}]` : SIMPLE_KEY.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
    yield* findDifferences(path + step, was, is);
  }
}

export type DriftKind = "new" | "missing" | "duplicate" | "description" | "schema" | "annotations";

export interface ToolDrift {
  readonly name: string;
  /** At least one, in the order of DriftKind. */
  readonly kinds: readonly DriftKind[];
  /** Undefined for a new tool. */
  readonly reviewed: DescriptorTool | undefined;
  /** None if it is missing, several if the name occurs more than once. */
  readonly live: readonly JsonObject[];
}

/** Sorted by name. Tools are compared in the form that a descriptor has. Names are not trimmed, because calls use them unchanged. */
export function compareTools(reviewed: readonly DescriptorTool[], live: readonly JsonObject[]): ToolDrift[] {
  const named = live.filter(({ name }) => typeof name === "string" && name !== "");
  const listed = Map.groupBy(named, ({ name }) => name as string);
  const known = new Map(reviewed.map((tool) => [tool.name, tool]));
  const names = [...new Set([...known.keys(), ...listed.keys()])].sort();
  const tools = names.map((name) => {
    const [tool, found = []] = [known.get(name), listed.get(name)];
    return { name, kinds: kindsOf(tool, found), reviewed: tool, live: found };
  });
  return tools.filter(({ kinds }) => kinds.length > 0);
}

function kindsOf(reviewed: DescriptorTool | undefined, [first, ...others]: readonly JsonObject[]): DriftKind[] {
  if (first === undefined) return ["missing"];
  const duplicate: DriftKind[] = others.length > 0 ? ["duplicate"] : [];
  return reviewed === undefined ? ["new", ...duplicate] : [...duplicate, ...changedParts(reviewed, first)];
}

const PARTS = { description: "description", inputSchema: "schema", annotations: "annotations" } as const;
const PART_NAMES = Object.keys(PARTS) as (keyof typeof PARTS)[];

/** A missing object is compared as an empty one, so that each member is shown. */
function differencesOf(part: keyof typeof PARTS, reviewed: DescriptorTool, live: JsonObject): Generator<string> {
  return findDifferences(part, reviewed[part] ?? {}, storedParts(live, reviewed.name)[part] ?? {});
}

function changedParts(reviewed: DescriptorTool, live: JsonObject): DriftKind[] {
  return PART_NAMES.filter((part) => differencesOf(part, reviewed, live).next().done !== true).map((part) => PARTS[part]);
}

/** Independent of the order of keys. */
export function fingerprintOf({ name, kinds, live }: ToolDrift): string {
  const definitions = live.map((tool) => {
    try {
      return JSON.stringify(sortKeys(storedParts(tool, name)));
    } catch {
      return "nested too deeply";
    }
  });
  return createHash("sha256")
    .update(JSON.stringify([name, kinds, definitions]))
    .digest("base64");
}

const MAX_LINES = 20;
const MAX_NAME_LENGTH = 128;
const MAX_PATH_LENGTH = 200;
const MAX_VALUE_LENGTH = 120;
/** The part of a long text that is shown before the first difference. */
const CONTEXT_LENGTH = 20;
const PLAIN_NAME = /^[\w./:@-]+$/;

/** `search: inputSchema.properties.limit.maximum: 100 -> 1000` */
export function describeDrift({ name, kinds, reviewed, live }: ToolDrift): string[] {
  const lines = live.length > 1 ? [`the server lists it ${live.length} times`] : [];
  const tool = live[0] ?? {};
  if (reviewed === undefined) lines.push(`new: ${preview(storedParts(tool, name).description)}`);
  else if (kinds.includes("missing")) lines.push("missing: the server does not list it");
  else {
    const found = PART_NAMES.flatMap((part) =>
      differencesOf(part, reviewed, tool)
        .take(MAX_LINES + 1)
        .toArray(),
    );
    lines.push(...found.slice(0, MAX_LINES));
    if (found.length > MAX_LINES) lines.push("more differences");
  }
  return lines.map((line) => `${readableName(name)}: ${line}`);
}

export function readableName(name: string): string {
  return name.length <= MAX_NAME_LENGTH && PLAIN_NAME.test(name) ? name : quote(name, 0, MAX_NAME_LENGTH);
}

/** @param before undefined on a side that has no value there, as `after`. */
function describeDifference(path: string, before: unknown, after: unknown): string {
  const start = typeof before === "string" && typeof after === "string" ? Math.max(0, commonLength(before, after) - CONTEXT_LENGTH) : 0;
  return `${readable(path, MAX_PATH_LENGTH)}: ${preview(before, start)} -> ${preview(after, start)}`;
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

function preview(value: unknown, start = 0): string {
  if (value === undefined) return "(none)";
  if (typeof value === "string") return quote(value, start, MAX_VALUE_LENGTH);
  try {
    return readable(JSON.stringify(value), MAX_VALUE_LENGTH);
  } catch {
    return "(nested too deeply to be shown)";
  }
}

/** Only the beginning is read: a server may write megabytes of invisible characters. */
function readable(text: string, maxLength: number): string {
  // `beginning` may omit half of a surrogate pair, and the text must still be recognised as too long.
  return shorten(escapeInvisible(beginning(text, maxLength + 2)), maxLength);
}

/** Quotes as JSON, from `start` on. */
function quote(text: string, start: number, maxLength: number): string {
  const rest = text.slice(isInsidePair(text, start) ? start - 1 : start);
  const shown = beginning(rest, maxLength);
  return `${start > 0 ? "…" : ""}${escapeInvisible(JSON.stringify(shown))}${shown.length < rest.length ? "…" : ""}`;
}

/** A server may change all of its tools at once. */
const MAX_LOG_LINES = 20;
const MAX_STATUS_TOOLS = 100;
/** Each private server may have a different drift. */
const MAX_PRIVATE_DRIFTS = 1000;

/** Each drift is logged once for all lanes and restarts, and again when it changes or returns after the shared lane had none. */
export class PinnedDescriptor {
  readonly #context: Context;
  readonly #descriptor: Descriptor;
  readonly #reviewed: ReadonlyMap<string, DescriptorTool>;
  /** A server may change its tools at any rate. */
  readonly #mayLog: () => boolean;
  /** Drifts by fingerprint; undefined until the server has listed its tools. */
  #shared: ReadonlyMap<string, Pick<ToolDrift, "name" | "kinds">> | undefined;
  /** Fingerprints of all drifts of the shared lane, and of private lanes since its last change. */
  #logged = new Set<string>();

  constructor(context: Context, descriptor: Descriptor) {
    this.#context = context;
    this.#descriptor = descriptor;
    this.#mayLog = logLimiter(context.nowMs);
    this.#reviewed = new Map(descriptor.tools.map((tool) => [tool.name, tool]));
  }

  isPinned(tool: JsonObject): boolean {
    const { name } = tool;
    const reviewed = typeof name === "string" ? this.#reviewed.get(name) : undefined;
    return reviewed !== undefined && changedParts(reviewed, tool).length === 0;
  }

  /** @param fields of the server, with `lane` for a private one. */
  onTools(tools: readonly JsonObject[], fields: LogFields): void {
    // The definitions are omitted, because they would stay in memory.
    const drifts = new Map(
      compareTools(this.#descriptor.tools, tools).map((each) => [fingerprintOf(each), { name: each.name, kinds: each.kinds }]),
    );
    const added = [...drifts].flatMap(([fingerprint, drift]) => (this.#logged.has(fingerprint) ? [] : [drift]));
    this.#logNew(added, fields);
    if (fields["lane"] === undefined) this.#onShared(drifts, fields);
    else if (this.#logged.size >= MAX_PRIVATE_DRIFTS + (this.#shared?.size ?? 0)) this.#logged = new Set(this.#shared?.keys());
    for (const fingerprint of drifts.keys()) this.#logged.add(fingerprint);
  }

  get status(): object {
    const { config, secrets } = this.#context;
    const drift = [...(this.#shared?.values() ?? [])].slice(0, MAX_STATUS_TOOLS);
    return {
      mode: config.descriptorMode,
      file: secrets.redact(config.descriptor ?? ""),
      reviewedTools: this.#reviewed.size,
      driftedTools: this.#shared?.size ?? null,
      drift: drift.map(({ name, kinds }) => ({ name: this.#shown(name), kinds })),
    };
  }

  #logNew(drifts: readonly Pick<ToolDrift, "name" | "kinds">[], fields: LogFields): void {
    const { log, config } = this.#context;
    const { descriptorMode: mode } = config;
    if (drifts.length === 0 || !this.#mayLog()) return;
    for (const { name, kinds } of drifts.slice(0, MAX_LOG_LINES)) {
      log.warn({ ...fields, tool: this.#shown(name), reason: kinds.join(", "), mode }, "tool differs from the descriptor");
    }
    if (drifts.length > MAX_LOG_LINES)
      log.warn({ ...fields, count: drifts.length - MAX_LOG_LINES, mode }, "more tools differ from the descriptor");
  }

  #onShared(drifts: ReadonlyMap<string, Pick<ToolDrift, "name" | "kinds">>, fields: LogFields): void {
    const before = this.#shared;
    this.#shared = drifts;
    const fingerprints = new Set(drifts.keys());
    if (fingerprints.symmetricDifference(before ?? new Set()).size > 0) this.#logged = fingerprints;
    const names = new Set(drifts.values().map(({ name }) => name));
    const gone = [...(before?.values() ?? [])].filter(({ name }) => !names.has(name));
    const isClean = drifts.size === 0;
    if ((gone.length === 0 && !(before === undefined && isClean)) || !this.#mayLog()) return;
    const { log } = this.#context;
    if (isClean) return log.info({ ...fields, count: this.#reviewed.size }, "all tools match the descriptor");
    for (const { name } of gone.slice(0, MAX_LOG_LINES))
      log.info({ ...fields, tool: this.#shown(name) }, "tool matches the descriptor again");
  }

  /** The server chooses the name. */
  #shown(name: string): string {
    return readableName(this.#context.secrets.redact(name));
  }
}
