import { closeSync, constants, fstatSync, mkdirSync, openSync, type Stats } from "node:fs";
import { isAbsolute, relative, resolve } from "node:path";
import { getSystemErrorMessage } from "node:util";
import { ToolError } from "../tool.ts";

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;
const OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "File not found: PATH",
  ELOOP: "PATH is a symbolic link, which is not followed",
  ENOTDIR: "PATH leads through a file, or through a symbolic link, which is not followed",
  EISDIR: "PATH is a folder",
  // A pipe without a reader, a socket, or a device without a driver.
  ENXIO: "PATH is not a regular file",
};

/** An open folder, and a name in it. */
interface Place {
  readonly parent: number;
  readonly name: string;
}

/**
 * Opens the folder of a file, and calls `use`. Each step is opened by its name in the folder before, without following a link: not even one
 * that replaces a folder meanwhile. @param create true to create missing folders. @throws ToolError, also for errors of files in `use`.
 */
export async function inFolder<Result>(
  root: string,
  path: string,
  create: boolean,
  use: (place: Place) => Result | Promise<Result>,
): Promise<Result> {
  const names = namesOf(root, path);
  const name = names.pop();
  if (name === undefined) throw new ToolError(`${path} is a folder`);
  const opened: number[] = [];
  try {
    let parent = openSync(root, OPEN_FOLDER);
    opened.push(parent);
    for (const each of names) {
      if (create) makeFolder(at({ parent, name: each }));
      const next = openSync(at({ parent, name: each }), OPEN_FOLDER);
      closeSync(opened.splice(0, 1, next)[0] ?? parent);
      parent = next;
    }
    return await use({ parent, name });
  } catch (error) {
    const { code = "", errno } = error as NodeJS.ErrnoException;
    if (errno === undefined) throw error;
    throw new ToolError((REASONS[code] ?? `PATH: ${getSystemErrorMessage(errno)}`).replace("PATH", () => path));
  } finally {
    for (const each of opened) closeSync(each);
  }
}

/** The path of a file in an open folder, which does not change if the folder is moved or replaced. */
export function at({ parent, name }: Place): string {
  return `/proc/self/fd/${parent}/${name}`;
}

/** Opens a regular file, and calls `use`. Neither a pipe nor a device blocks. */
export function withFile<Result>(place: Place, path: string, flags: number, use: (file: number, stats: Stats) => Result): Result {
  const file = openSync(at(place), flags | O_NOFOLLOW | O_NONBLOCK, 0o600);
  try {
    const stats = fstatSync(file);
    if (stats.isDirectory()) throw new ToolError(`${path} is a folder`);
    if (!stats.isFile()) throw new ToolError(`${path} is not a regular file`);
    // Another name of the file may be outside of the folder.
    if (stats.nlink > 1) throw new ToolError(`${path} has several hard links, one of which may be outside of the folder`);
    return use(file, stats);
  } finally {
    closeSync(file);
  }
}

function namesOf(root: string, path: string): string[] {
  if (path.includes("\0")) throw new ToolError("The path has a NUL character", "validation_error");
  const inside = relative(root, resolve(root, path));
  if (inside === ".." || inside.startsWith("../") || isAbsolute(inside)) {
    throw new ToolError(`${path} is outside of the folder for files. Use a relative path, such as notes.txt`, "validation_error");
  }
  return inside.split("/").filter((name) => name !== "");
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, 0o700);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}
