import { randomUUID } from "node:crypto";
import { closeSync, constants, fchmodSync, fstatSync, openSync, renameSync, rmSync, type Stats, writeFileSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { type Context, type Tool, ToolError } from "../tool.ts";
import { at, inFolder, withFile } from "./folder.ts";

const { O_WRONLY, O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;

interface Arguments {
  readonly path: string;
  readonly content: string;
  readonly mode?: "overwrite" | "append";
}

export const writeFile: Tool = {
  name: "write_file",
  description: "Write contents to a file on local storage",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "The file path to write, relative to the folder for files", minLength: 1, maxLength: 4096 },
      content: { type: "string", description: "The content to write" },
      mode: { type: "string", enum: ["overwrite", "append"], description: "Write mode. Default: overwrite" },
    },
    required: ["path", "content"],
    additionalProperties: false,
  },
  permissions: [],
  timeoutMs: 10_000,
  async execute({ path, content, mode = "overwrite" }: Arguments, { settings, signal }: Context): Promise<object> {
    const bytes = Buffer.from(content);
    const requireSize = (size: number): void => {
      const most = settings.maxFileBytes;
      if (size > most) throw new ToolError(`${path} would have ${size} bytes. The limit is ${most} bytes`);
    };
    requireSize(bytes.length);
    await inFolder(settings.folder, path, true, async (place) => {
      if (isReadOnly(fstatSync(place.parent))) throw new ToolError(`The folder of ${path} is read-only`);
      if (mode === "overwrite") return replace(place, path, bytes, signal);
      withFile(place, path, O_WRONLY | O_APPEND | O_CREAT, (file, stats) => {
        if (isReadOnly(stats)) throw new ToolError(`${path} is read-only`);
        requireSize(stats.size + bytes.length);
        // One write, so that two appends do not mix.
        writeFileSync(file, bytes);
      });
    });
    return { path, bytes_written: bytes.length };
  },
};

/** Writes another file, which then takes the name. A call that is aborted leaves the old file. */
async function replace(place: Parameters<typeof at>[0], path: string, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const mode = modeOf(place, path);
  const temporary = at({ ...place, name: `.oneclaw-${randomUUID()}.tmp` });
  const file = openSync(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    writeFileSync(file, bytes);
    fchmodSync(file, mode);
    // The message of an abort arrives now.
    await setImmediate();
    signal.throwIfAborted();
    renameSync(temporary, at(place));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

/** @returns the permission bits of the file, or those of a new one. @throws if it cannot be written. */
function modeOf(place: Parameters<typeof at>[0], path: string): number {
  try {
    return withFile(place, path, O_WRONLY, (_file, stats) => {
      if (isReadOnly(stats)) throw new ToolError(`${path} is read-only`);
      return stats.mode & 0o777;
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0o600;
    throw error;
  }
}

/** Without this, root could write to it. */
function isReadOnly({ mode }: Stats): boolean {
  return (mode & 0o222) === 0;
}
