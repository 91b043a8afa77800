import { randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, realpathSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { findRepeatedName } from "../json/text.ts";
import { parseJson as parse } from "../json/value.ts";
import { isJsonObject, type JsonObject } from "../mcp/message.ts";
import { type Descriptor, DescriptorError, type DescriptorTool, MAX_FILE_BYTES, refuseDuplicates, toDescriptorTool } from "./descriptor.ts";

/**
 * Reads a descriptor of version 2, written by `discover` or by hand. Unknown members are ignored.
 *
 * @throws DescriptorError with the file's name and the problem.
 */
export function readDescriptor(path: string): Descriptor {
  try {
    return parseDescriptor(readText(path));
  } catch (error) {
    throw namedError(path, error);
  }
}

/**
 * Reads a descriptor from a stream, to its end or to the limit of a file.
 *
 * @throws DescriptorError with the name of the stream and the problem.
 */
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

/**
 * Replaces the file atomically: a reader gets either the old or the new content. Keeps the file's mode, and creates its directory if
 * necessary.
 *
 * @throws DescriptorError with the file's name.
 */
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
  const tools = (listed as unknown[]).map(readTool);
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
    return parse(text);
  } catch (error) {
    // The parser's message quotes the content, which may be secret if this is the wrong file.
    const [, line, column] = /\(line (\d+) column (\d+)\)/.exec(String(error)) ?? [];
    throw new DescriptorError(line === undefined ? "is not JSON" : `is not JSON: line ${line}, column ${column}`, { cause: error });
  }
}

function readTool(tool: unknown, index: number): DescriptorTool {
  const place = `tools[${index}]`;
  if (!isJsonObject(tool)) throw new DescriptorError(`${place} is ${describeValue(tool)}; it must be an object`);
  const { name } = tool;
  if (typeof name !== "string" || name.trim() === "") throw new DescriptorError(`${place} has no \`name\``);
  const read = toDescriptorTool(tool);
  if (read !== undefined) return read;
  throw new DescriptorError(`${place}, ${JSON.stringify(name)}: ${whyUnreadable(tool)}`);
}

function whyUnreadable({ description, inputSchema, annotations }: JsonObject): string {
  if (typeof (description ?? "") !== "string") return `\`description\` is ${describeValue(description)}; it must be a string`;
  if (!isJsonObject(inputSchema ?? {})) return `\`inputSchema\` is ${describeValue(inputSchema)}; it must be an object`;
  if (!isJsonObject(annotations ?? {})) return `\`annotations\` is ${describeValue(annotations)}; it must be an object`;
  return "its schema or annotations have too many levels, or a number that is too large";
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

/** Returns the target of a symbolic link, so that the link itself is not replaced. */
function findTarget(path: string): { readonly target: string; readonly mode: number | undefined } {
  try {
    const target = realpathSync(path);
    const stats = statSync(target);
    if (!stats.isFile()) throw new DescriptorError("is not a regular file");
    return { target, mode: stats.mode & 0o7777 };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return { target: path, mode: undefined };
  }
}
