import { readFileSync } from "node:fs";
import { basename } from "node:path";

/** Programs that download a package before they run it, and their options with a value. */
const DOWNLOADERS: Readonly<Record<string, { readonly packageFlags: readonly string[]; readonly otherFlags: readonly string[] }>> = {
  npx: { packageFlags: ["-p", "--package"], otherFlags: ["-c", "--call", "-w", "--workspace", "--registry", "--cache", "--prefix"] },
  bunx: { packageFlags: ["-p", "--package"], otherFlags: [] },
  uvx: {
    packageFlags: ["--from"],
    otherFlags: [
      "--with",
      "--with-editable",
      "--with-requirements",
      "-p",
      "--python",
      "--index",
      "--index-url",
      "--default-index",
      "--cache-dir",
    ],
  },
};

/** A command that runs a package, and downloads it before if it is not in its cache. */
export interface PackageCommand {
  /** Such as `npx`. */
  readonly program: string;
  /** The package as the command line names it, with its version. */
  readonly packageName: string;
}

/** @returns undefined for a command that downloads nothing, or whose package is not known. */
export function packageCommand(command: string, args: readonly string[]): PackageCommand | undefined {
  const program = basename(command);
  const known = Object.hasOwn(DOWNLOADERS, program) ? DOWNLOADERS[program] : undefined;
  if (known === undefined) return undefined;
  for (let index = 0; index < args.length; index++) {
    const word = args[index] ?? "";
    const [flag = "", inline] = word.startsWith("--") ? word.split("=", 2) : [word];
    if (!word.startsWith("-")) return { program, packageName: word };
    const isPackage = known.packageFlags.includes(flag);
    const value = inline ?? args[index + 1];
    if (isPackage && value !== undefined) return { program, packageName: value };
    if (inline === undefined && known.otherFlags.includes(flag)) index++;
  }
  return undefined;
}

/** True if a process has started none itself: a program of this kind still looks for its package or downloads it. */
export function hasNoChildren(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").trim() === "";
  } catch {
    // The process has exited, or the system does not tell.
    return false;
  }
}
