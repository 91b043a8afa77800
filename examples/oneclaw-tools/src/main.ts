// An MCP server on stdio. `definitions` prints its tools for a model.

import { toAnthropic } from "./providers/anthropic.ts";
import { toGemini } from "./providers/gemini.ts";
import { toOpenAi } from "./providers/openai.ts";
import { Registry } from "./registry.ts";
import { serve } from "./serve.ts";
import { readSettings } from "./settings.ts";
import type { Definition } from "./tool.ts";

const USAGE = "Usage: main.ts [definitions openai|anthropic|gemini]. Without arguments, it serves MCP on stdio.";
const MODULES = [new URL("tools/built-in.ts", import.meta.url).href];
const PROVIDERS = Object.entries({ openai: toOpenAi, anthropic: toAnthropic, gemini: toGemini });

try {
  const command = process.argv.slice(2).join(" ");
  const convert = PROVIDERS.find(([name]) => command === `definitions ${name}`)?.[1];
  if (convert !== undefined) process.stdout.write(`${JSON.stringify(convert(await enabled()), null, 2)}\n`);
  else if (command === "") await serve(MODULES);
  else throw new Error(USAGE);
} catch (error) {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exitCode = 2;
}

/** Source: "Tool Visibility in Agent Configuration". */
async function enabled(): Promise<readonly Definition[]> {
  const registry = await Registry.load(MODULES);
  const { tools } = readSettings(process.env, registry.all);
  return registry.all.filter(({ name }) => tools.has(name));
}
