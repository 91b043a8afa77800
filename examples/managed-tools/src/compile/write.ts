import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { MANIFEST_FILE, type ManagedTool } from "../manifest.ts";
import type { CompiledAgent } from "./compile.ts";

const CONTRACT_FILE = "CLAWDAPUS.md";
/** The section, up to the next one or the end. */
const TOOLS_SECTION = /^## Tools\n[\s\S]*?(?=^## |(?![\s\S]))/m;

/** Writes the folder of each agent. A manifest of an agent that no longer has tools is removed: it would still grant them. */
export function writeAgents(folder: string, agents: readonly CompiledAgent[]): void {
  mkdirSync(folder, { recursive: true });
  const granted = new Set(agents.filter(({ manifest }) => manifest.tools.length > 0).map(({ name }) => name));
  const present = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  for (const { name } of present) if (!granted.has(name)) rmSync(join(folder, name, MANIFEST_FILE), { force: true });
  for (const { name, manifest } of agents) {
    const own = join(folder, name);
    mkdirSync(own, { recursive: true });
    // Only the owner may read it, because it has tokens. The agent reads its contract.
    if (granted.has(name)) replaceFile(join(own, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`, 0o600);
    writeSection(join(own, CONTRACT_FILE), manifest.tools);
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
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** Readers see the old file or the new one. */
function replaceFile(file: string, text: string, mode: number): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, text, { mode });
  renameSync(draft, file);
}
