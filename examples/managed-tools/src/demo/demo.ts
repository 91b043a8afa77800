import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parse } from "yaml";
import { type CompiledAgent, compile } from "../compile/compile.ts";
import { interpolate, Pod } from "../compile/pod.ts";
import { writeAgents } from "../compile/write.ts";
import { isJsonObject, type JsonObject } from "../manifest.ts";
import { objectsIn } from "../mediate/format.ts";
import { startMediator } from "../mediate/server.ts";
import type { Trace } from "../mediate/trace.ts";
import { WireTools } from "../mediate/wire-names.ts";
import { type Conversation, readConversation, scriptOf } from "./conversation.ts";
import { type ScriptedModel, startScriptedModel } from "./scripted-model.ts";
import { type DeclaredSidecar, discover, sidecarsIn, startProgram, startSidecar } from "./sidecars.ts";

/** A device may register its tools after its server has started. */
const TOOLS_TIMEOUT_MS = 20_000;
const DISCOVERY_INTERVAL_MS = 1000;

/**
 * Starts the sidecars of a pod, compiles its first agent, starts the proxy, and asks a model. A scripted model follows `conversation.json` beside the pod.
 *
 * @param given the endpoints of sidecars that run, by the names of their services. The others are started.
 */
export async function runDemo(podFile: string, given: ReadonlyMap<string, string>): Promise<void> {
  const podFolder = dirname(podFile);
  const conversation = readConversation(join(podFolder, "conversation.json"));
  const sidecars = sidecarsIn(Pod.parse(parse(readFileSync(podFile, "utf8"))));
  const folder = mkdtempSync(join(tmpdir(), "managed-tools-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(folder, { recursive: true }));

  const urls = new Map<string, string>();
  for (const sidecar of sidecars) {
    const url = given.get(sidecar.name) ?? (await startSidecar(sidecar, podFolder, stack));
    urls.set(sidecar.name, url);
    say("sidecar", url);
  }
  // With sidecars elsewhere, so are their devices.
  for (const [program, ...args] of given.size === 0 ? conversation.programs : []) {
    const words = args.map((word) => interpolate(word, process.env) ?? "");
    startProgram([program, ...words], podFolder, process.env, "ignore", stack).once("error", ({ message }) => {
      process.stderr.write(`${program}: ${message}\n`);
    });
  }
  copyFileSync(podFile, join(folder, "claw-pod.yml"));
  mkdirSync(join(folder, ".claw-discovered"));
  const agent = await compileAgent(folder, sidecars, urls, conversation);
  say("compiled", `${agent.name} has ${agent.manifest.tools.map((tool) => tool.name).join(", ")}`);

  const modelUrl = variable("MODEL_URL");
  const model = modelUrl === undefined ? stack.use(await startScriptedModel(scriptOf(conversation))) : undefined;
  const mediator = stack.use(
    await startMediator({
      contextFolder: join(folder, "context"),
      modelUrl: modelUrl ?? (model as ScriptedModel).url,
      modelKey: variable("MODEL_API_KEY"),
      port: 0,
      onTrace: showRounds,
      warn: (text) => process.stderr.write(`${text}\n`),
    }),
  );
  const url = `${mediator.url}/${agent.name}`;
  say("proxy", url);
  say("runner", conversation.question);
  say("model", await ask(url, conversation.question));
}

/**
 * Compiles the pod in the folder, for its first agent.
 *
 * @throws Error if the pod has problems, or a tool that the scripted model calls does not appear.
 */
async function compileAgent(
  folder: string,
  sidecars: readonly DeclaredSidecar[],
  urls: ReadonlyMap<string, string>,
  { calls, awaits }: Conversation,
): Promise<CompiledAgent> {
  const origins = new Map([...urls].map(([name, url]) => [name, new URL(url).origin]));
  let isWaiting = false;
  for (const deadline = Date.now() + TOOLS_TIMEOUT_MS; ; await setTimeout(DISCOVERY_INTERVAL_MS)) {
    for (const sidecar of sidecars)
      discover(sidecar, urls.get(sidecar.name) ?? "", join(folder, `.claw-discovered/${sidecar.name}.claw-describe.json`));
    const { agents, problems } = compile(join(folder, "claw-pod.yml"), process.env, origins);
    if (problems.length > 0) throw new Error(problems.map(({ file, line, text }) => `${file}:${line}: ${text}`).join("\n"));
    const [agent] = agents;
    if (agent === undefined) throw new Error("The pod has no agent.");
    const tools = new WireTools(agent.manifest);
    const missing = [...calls.map(({ tool }) => tool), ...awaits].filter((name) => tools.find(name) === undefined);
    if (missing.length > 0 && Date.now() < deadline) {
      if (!isWaiting) process.stderr.write(`waiting for the tools ${missing.join(", ")}\n`);
      isWaiting = true;
      continue;
    }
    // A real model uses those that are there.
    if (missing.length > 0 && variable("MODEL_URL") === undefined) {
      throw new Error(`${agent.name} has no tools ${missing.join(", ")}, which the script names: start their devices.`);
    }
    writeAgents(join(folder, "context"), agents);
    return agent;
  }
}

/** Asks as a runner does, without tools. @returns the text of the answer. */
async function ask(url: string, question: string): Promise<string> {
  const model = variable("MODEL");
  const isAnthropic = /anthropic/.test(variable("MODEL_URL") ?? "") || model?.startsWith("claude") === true;
  const messages = [{ role: "user", content: question }];
  const response = await fetch(url + (isAnthropic ? "/v1/messages" : "/v1/chat/completions"), {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(isAnthropic ? { "anthropic-version": "2023-06-01" } : {}) },
    body: JSON.stringify(
      isAnthropic ? { model: model ?? "claude-haiku-4-5", max_tokens: 1000, messages } : { model: model ?? "gpt-5-mini", messages },
    ),
  });
  const body = (await response.json()) as JsonObject;
  if (!response.ok) throw new Error(`HTTP ${response.status}: ${JSON.stringify(body)}`);
  const [choice] = objectsIn(body["choices"]);
  const message = choice?.["message"];
  if (isJsonObject(message)) return String(message["content"]);
  return objectsIn(body["content"])
    .map(({ text }) => String(text))
    .join("");
}

/** Compose passes a variable that is not set as an empty one. */
function variable(name: string): string | undefined {
  return process.env[name] || undefined;
}

function showRounds(line: string): void {
  const { tool_trace: rounds } = JSON.parse(line) as Trace;
  for (const { round, tool_calls: calls } of rounds)
    for (const { name, arguments: args, result, latency_ms: ms } of calls)
      say(`round ${round}`, `${name} ${JSON.stringify(args)} -> ${JSON.stringify(result)} (${ms} ms)`);
}

function say(label: string, text: string): void {
  process.stdout.write(`${label.padEnd(10)}${text}\n`);
}
