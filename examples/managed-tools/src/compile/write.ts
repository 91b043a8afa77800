import { randomUUID } from "node:crypto";
import { lstatSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MANIFEST_FILE, type ManagedTool } from "../manifest.ts";
import type { CompiledAgent } from "./compile.ts";

const CONTRACT_FILE = "CLAWDAPUS.md";
/** The section, up to the next one or the end. */
const TOOLS_SECTION = /^## Tools\n[\s\S]*?(?=^##? |(?![\s\S]))/m;

/** Writes the folder of each agent. An agent that no longer has tools loses its manifest, which would still grant them. */
export function writeAgents(folder: string, agents: readonly CompiledAgent[]): void {
  mkdirSync(folder, { recursive: true });
  const compiled = new Map(agents.map(({ name, manifest }) => [name, manifest]));
  const present = readdirSync(folder, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
  for (const name of new Set([...present, ...compiled.keys()])) {
    const own = join(folder, name);
    const manifest = compiled.get(name);
    const tools = manifest?.tools ?? [];
    mkdirSync(own, { recursive: true });
    // Only the owner may read it, because it has tokens. The agent reads its contract.
    if (tools.length > 0) replaceFile(join(own, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`, 0o600);
    else rmSync(join(own, MANIFEST_FILE), { force: true });
    writeSection(join(own, CONTRACT_FILE), tools);
  }
}

/** Replaces the section in the contract of the agent, and keeps the rest. */
function writeSection(file: string, tools: readonly ManagedTool[]): void {
  const before = readIfPresent(file);
  const section = tools.length === 0 ? "" : toolsSection(tools);
  const without = before.replace(TOOLS_SECTION, "").trimEnd();
  const text = TOOLS_SECTION.test(before)
    ? before.replace(TOOLS_SECTION, () => section)
    : `${without}${without === "" ? "" : "\n\n"}${section}`;
  if (text !== before) replaceFile(file, text, 0o644);
}

function toolsSection(tools: readonly ManagedTool[]): string {
  const lines = tools.map(({ name, description, annotations }) => {
    const [first = ""] = description.trim().split(/[\r\n\u2028\u2029]/);
    return `- \`${name}\`${annotations?.["readOnly"] === true ? " (reads only)" : ""}${first === "" ? "" : `: ${first}`}\n`;
  });
  return `## Tools\n\nCall these by their names. They are executed for you.\n\n${lines.join("")}`;
}

function readIfPresent(file: string): string {
  try {
    // A link could lead to a secret, which would become readable.
    if (!lstatSync(file).isFile()) throw new Error(`${file} is not a file`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return "";
    throw error;
  }
}

/** Readers see the old file or the new one. */
function replaceFile(file: string, text: string, mode: number): void {
  const draft = `${file}.${randomUUID()}`;
  writeFileSync(draft, text, { mode, flag: "wx" });
  renameSync(draft, file);
}
