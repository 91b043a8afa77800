import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { escapeInvisible, findRepeatedName, shorten } from "../json/text.ts";
import { readValue } from "../json/value.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";

/** A deeper schema is not stored, and equals no other. */
const MAX_DEPTH = 128;
/** `claw discover` reads lists of at most 4 MiB, which are longer with their indentation. */
export const MAX_FILE_BYTES = 16 * 1024 * 1024;

/** A tool without `outputSchema`, `title`, `icons`, `execution` and `_meta`. */
export interface DescriptorTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly annotations?: JsonObject;
}

/** As `claw discover` writes it. One that is written by hand may lack some members or have more. */
export interface Descriptor {
  readonly version: 2;
  readonly description?: string;
  readonly mcp?: JsonObject;
  readonly tools: readonly DescriptorTool[];
  /** The origin of the tools: `command`, `args`, `wrapper_image`, `discovered_at`, … */
  readonly "x-claw-discovery"?: JsonObject;
}

/** The message quotes only names of the content. */
export class DescriptorError extends Error {
  override readonly name = "DescriptorError";
}

/**
 * @param place of the tool, for the error.
 * @throws DescriptorError without a name, or if a member has a wrong type, too many levels, or a number that exceeds a double.
 */
export function toDescriptorTool(tool: unknown, place: string): DescriptorTool {
  if (!isJsonObject(tool)) throw new DescriptorError(`${place} is ${describeValue(tool)}; it must be an object`);
  const name = typeof tool["name"] === "string" ? tool["name"].trim() : "";
  if (name === "") throw new DescriptorError(`${place} has no \`name\``);
  const named = `${place}, ${JSON.stringify(shorten(name))}`;
  const wrong = (member: string, value: unknown, wanted: string): DescriptorError =>
    new DescriptorError(`${named}: \`${member}\` is ${describeValue(value)}; it must be ${wanted}`);
  const { description, inputSchema, annotations } = storedParts(tool, name);
  if (typeof description !== "string") throw wrong("description", description, "a string");
  if (!isJsonObject(inputSchema)) throw wrong("inputSchema", inputSchema, "an object");
  if (annotations !== undefined && !isJsonObject(annotations)) throw wrong("annotations", annotations, "an object");
  if (!isStorable(inputSchema, MAX_DEPTH) || !isStorable(annotations, MAX_DEPTH))
    throw new DescriptorError(`${named}: its schema or annotations have too many levels, or a number that is too large`);
  return { name, description, inputSchema, ...(annotations === undefined ? {} : { annotations }) };
}

/** A value of a wrong type is returned unchanged. */
export function storedParts({ description, inputSchema, annotations }: JsonObject, name: string) {
  const text = typeof description === "string" ? description.trim() : (description ?? "");
  const isEmpty = isJsonObject(annotations) && Object.keys(annotations).length === 0;
  return {
    description: text === "" ? `MCP tool ${name}.` : text,
    inputSchema: isJsonObject(inputSchema) ? { type: "object", ...inputSchema } : (inputSchema ?? { type: "object", properties: {} }),
    // `claw discover` omits empty ones.
    annotations: isEmpty || annotations === null ? undefined : annotations,
  };
}

function refuseDuplicates(tools: readonly DescriptorTool[]): void {
  const indexes = new Map<string, number>();
  for (const [index, { name }] of tools.entries()) {
    const first = indexes.get(name);
    if (first !== undefined) throw new DescriptorError(`tools[${first}] and tools[${index}] have the same name, ${JSON.stringify(name)}`);
    indexes.set(name, index);
  }
}

/**
 * The keys of schemas and annotations are sorted, so that a diff shows only changes.
 *
 * @throws DescriptorError if the text is longer than `maxBytes`, or if two tools have the same name.
 */
export function formatDescriptor(
  { version, description, mcp, tools, "x-claw-discovery": discovery }: Descriptor,
  maxBytes = MAX_FILE_BYTES,
): string {
  refuseDuplicates(tools);
  const formatted = tools.map(({ name, description: text, inputSchema, annotations }) => ({
    name,
    description: text,
    inputSchema: sortKeys(inputSchema),
    annotations: sortKeys(annotations),
  }));
  try {
    const text = JSON.stringify({ version, description, mcp, tools: formatted, "x-claw-discovery": discovery }, undefined, 2);
    // Reviewers must see every character.
    const escaped = text.length > maxBytes ? text : `${text.split("\n").map(escapeInvisible).join("\n")}\n`;
    if (Buffer.byteLength(escaped) <= maxBytes) return escaped;
  } catch (error) {
    // With its indentation, it is longer than any text of V8.
    if (!(error instanceof RangeError)) throw error;
  }
  throw new DescriptorError(`the descriptor would be longer than ${maxBytes} bytes`);
}

/** @throws RangeError if no stack holds its levels. */
export function sortKeys(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(sortKeys);
  const members = Object.entries(value).map(([key, member]): [string, unknown] => [key, sortKeys(member)]);
  // An assignment would lose a member with the name `__proto__`.
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** True if the value is the same after it is written as JSON and read again. */
function isStorable(value: unknown, depth: number): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isStorable(member, depth - 1));
}

/** @throws DescriptorError with the file's name and the problem. */
export function readDescriptor(path: string): Descriptor {
  try {
    return parseDescriptor(readText(path));
  } catch (error) {
    throw namedError(path, error);
  }
}

/** @throws DescriptorError with the name of the stream and the problem. */
export async function readDescriptorStream(stream: AsyncIterable<Buffer>, name: string): Promise<Descriptor> {
  try {
    return parseDescriptor(decode(await readToEnd(stream)));
  } catch (error) {
    throw namedError(name, error);
  }
}

async function readToEnd(stream: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > MAX_FILE_BYTES) throw new DescriptorError(`has more than ${MAX_FILE_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function namedError(name: string, error: unknown): DescriptorError {
  const reason = error instanceof DescriptorError ? error.message : systemReason(error);
  return new DescriptorError(`${name}: ${reason}`, { cause: error });
}

/** A reader gets either the old or the new content. Keeps the file's mode. @throws DescriptorError with the file's name. */
export function writeDescriptor(path: string, text: string): void {
  let temporary: string | undefined;
  try {
    mkdirSync(dirname(path), { recursive: true });
    const { target, mode } = findTarget(path);
    temporary = join(dirname(target), `.${basename(target)}.${randomUUID()}.tmp`);
    // Without the flush, the renamed file may be empty after a power failure.
    writeFileSync(temporary, text, { flag: "wx", flush: true, mode });
    // The umask may have removed some of its bits.
    if (mode !== undefined) chmodSync(temporary, mode);
    renameSync(temporary, target);
  } catch (error) {
    if (temporary !== undefined) rmSync(temporary, { force: true });
    throw namedError(path, error);
  }
}

function readText(path: string): string {
  // Reading a named pipe would wait for a writer, so the type is checked first.
  const stats = statSync(path);
  if (!stats.isFile()) throw new DescriptorError("is not a regular file");
  if (stats.size > MAX_FILE_BYTES) throw new DescriptorError(`has ${stats.size} bytes; at most ${MAX_FILE_BYTES} are read`);
  return decode(readFileSync(path));
}

function decode(bytes: Buffer): string {
  return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
}

function parseDescriptor(text: string): Descriptor {
  const value = parseJson(text);
  if (!isJsonObject(value)) throw new DescriptorError("is not a descriptor: not a JSON object");
  // A reviewer may have read the first of them, and the last one would count.
  const repeated = findRepeatedName(text.trimStart(), 0);
  if (repeated !== undefined) throw new DescriptorError(`has the member ${JSON.stringify(repeated)} twice in one object`);
  const { version, description, mcp, tools: listed = [], "x-claw-discovery": discovery } = value;
  if (version !== 2) throw new DescriptorError(`\`version\` is ${describeValue(version)}; only version 2 is known`);
  if (!Array.isArray(listed)) throw new DescriptorError(`\`tools\` is ${describeValue(listed)}; it must be an array`);
  const tools = (listed as unknown[]).map((tool, index) => toDescriptorTool(tool, `tools[${index}]`));
  refuseDuplicates(tools);
  return {
    version,
    tools,
    ...(typeof description === "string" ? { description } : {}),
    ...(isJsonObject(mcp) ? { mcp } : {}),
    ...(isJsonObject(discovery) ? { "x-claw-discovery": discovery } : {}),
  };
}

function parseJson(text: string): unknown {
  try {
    return readValue(text);
  } catch (error) {
    // The parser's message quotes the content, which may be secret if this is the wrong file.
    const [, line, column] = /\(line (\d+) column (\d+)\)/.exec(String(error)) ?? [];
    throw new DescriptorError(line === undefined ? "is not JSON" : `is not JSON: line ${line}, column ${column}`, { cause: error });
  }
}

function describeValue(value: unknown): string {
  if (value === undefined) return "missing";
  if (Array.isArray(value)) return "an array";
  return typeof value === "number" || typeof value === "boolean" || value === null ? String(value) : `of type ${typeof value}`;
}

function systemReason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "ENOENT") return "does not exist";
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "is not UTF-8";
  return code === undefined ? message : `${code} (${message.replace(/^[A-Z]+: /, "")})`;
}

/** A symbolic link itself is not replaced. */
function findTarget(path: string): { readonly target: string; readonly mode: number | undefined } {
  try {
    // A pipe in `/proc` has no real path.
    const stats = statSync(path);
    if (!stats.isFile()) throw new DescriptorError("is not a regular file");
    return { target: realpathSync(path), mode: stats.mode & 0o7777 };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return { target: path, mode: undefined };
  }
}
