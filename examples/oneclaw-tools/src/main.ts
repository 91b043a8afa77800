// An MCP server on stdio. `tools` and `definitions` print what it offers.

import { parseArgs } from "node:util";
import { toAnthropic } from "./providers/anthropic.ts";
import { toGemini } from "./providers/gemini.ts";
import { toOpenAi } from "./providers/openai.ts";
import { Registry } from "./registry.ts";
import { serve } from "./serve.ts";
import { readSettings } from "./settings.ts";

const USAGE = `Usage:
  main.ts                                 Serve MCP on stdio. Settings are variables: see README.md.
  main.ts tools                           Print the tools and whether they are enabled.
  main.ts definitions --provider NAME     Print the enabled tools as openai, anthropic or gemini takes them.
`;
const MODULES = [new URL("tools/built-in.ts", import.meta.url).href];
const PROVIDERS = { openai: toOpenAi, anthropic: toAnthropic, gemini: toGemini };

try {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { provider: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  const [command, ...extra] = positionals;
  if (values.help === true) process.stdout.write(USAGE);
  else if (command === undefined && values.provider === undefined) await serve(MODULES);
  else process.stdout.write(await print(extra.length === 0 ? command : undefined, values.provider));
} catch (error) {
  process.stderr.write(`${(error as Error).message.trimEnd()}\n`);
  process.exitCode = 2;
}

async function print(command: string | undefined, provider: string | undefined): Promise<string> {
  const registry = await Registry.load(MODULES);
  const { tools } = readSettings(process.env, registry.names, registry.permissions);
  const convert = Object.entries(PROVIDERS).find(([name]) => name === provider)?.[1];
  if (command === "definitions" && convert !== undefined)
    return `${JSON.stringify(convert(registry.all.filter(({ name }) => tools.has(name))), null, 2)}\n`;
  if (command !== "tools" || provider !== undefined) throw new Error(USAGE);
  // Source: "Tool Visibility in Agent Configuration".
  const lines = registry.all.map(({ name, description, permissions }) => {
    const needs = permissions.length > 0 ? ` (needs ${permissions.join(", ")})` : "";
    return `[${tools.has(name) ? "x" : " "}] ${name} - ${description}${needs}\n`;
  });
  return lines.join("");
}
