import { accessSync, constants, statSync } from "node:fs";
import { delimiter, resolve } from "node:path";

/** The search path of a system that sets none (execvp(3)). */
const DEFAULT_PATH = "/bin:/usr/bin";

/**
 * Checks if a command can be executed, as the operating system would search for it.
 *
 * @param cwd the directory in which the command runs.
 * @returns the error of the system if it cannot, such as ENOENT, EACCES or ENOTDIR.
 */
export function executableError(command: string, path: string | undefined, cwd: string): string | undefined {
  if (command.includes("/")) return accessError(resolve(cwd, command));
  let error = "ENOENT";
  for (const directory of (path ?? DEFAULT_PATH).split(delimiter)) {
    const found = accessError(resolve(cwd, directory, command));
    if (found === undefined) return undefined;
    if (found === "EACCES") error = found;
  }
  return error;
}

function accessError(file: string): string | undefined {
  try {
    if (statSync(file).isDirectory()) return "EACCES";
    accessSync(file, constants.X_OK);
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? "ENOENT";
  }
}
