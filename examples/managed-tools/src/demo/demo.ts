import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { compile } from "../compile/compile.ts";
import { writeAgents } from "../compile/write.ts";
import { isJsonObject, type JsonObject } from "../manifest.ts";
import { objectsIn } from "../mediate/format.ts";
import { startMediator } from "../mediate/server.ts";
import type { Trace } from "../mediate/trace.ts";
import { DEMO_SCRIPT, type ScriptedModel, startScriptedModel } from "./scripted-model.ts";

const HERE = fileURLToPath(new URL("../../", import.meta.url));
const CLAW = join(HERE, "../../dist/main.js");
/** As in claw-pod.yml. */
const SERVER = ["node", "../echo-server/server.js"];
const QUESTION = "What is 2 + 3? Use the tools.";

/**
 * Starts a sidecar, compiles the pod, starts the proxy, and asks a model.
 *
 * @param sidecarUrl the endpoint of a sidecar that runs; undefined to start one.
 * @param descriptor its descriptor.
 */
export async function runDemo(sidecarUrl?: string, descriptor?: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "managed-tools-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(folder, { recursive: true }));
  const url = sidecarUrl ?? (await startSidecar(stack));
  say("sidecar", url);

  const snapshot = join(folder, ".claw-discovered/echo.claw-describe.json");
  mkdirSync(join(folder, ".claw-discovered"));
  if (descriptor === undefined) {
    const recorded = ["--service", "echo", "--image", "claw-mcp-stdio", "--", ...SERVER];
    execFileSync(process.execPath, [CLAW, "discover", "--url", url, "--out", snapshot, ...recorded], {
      stdio: ["ignore", "ignore", "pipe"],
    });
  } else copyFileSync(descriptor, snapshot);
  copyFileSync(join(HERE, "claw-pod.yml"), join(folder, "claw-pod.yml"));
  const { agents, problems } = compile(join(folder, "claw-pod.yml"), process.env, new Map([["echo", new URL(url).origin]]));
  if (problems.length > 0) throw new Error(problems.map(({ file, line, text }) => `${file}:${line}: ${text}`).join("\n"));
  writeAgents(join(folder, "context"), agents);
  for (const { name, manifest } of agents) say("compiled", `${name} has ${manifest.tools.map((tool) => tool.name).join(", ")}`);

  const modelUrl = variable("MODEL_URL");
  const model = modelUrl === undefined ? stack.use(await startScriptedModel(DEMO_SCRIPT)) : undefined;
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
  say("proxy", `${mediator.url}/analyst`);
  say("runner", QUESTION);
  say("model", await ask(`${mediator.url}/analyst`));
}

/** Returns the URL of the endpoint, when the server is ready. The sidecar ends with the stack. */
async function startSidecar(stack: AsyncDisposableStack): Promise<string> {
  if (!existsSync(CLAW)) throw new Error("The sidecar is not built: run `npm ci && npm run build` in the root of the repository.");
  const server = [process.execPath, join(HERE, "../echo-server/server.js")];
  const child: ChildProcess = spawn(process.execPath, [CLAW, "--addr", "127.0.0.1:0", "--", ...server], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  stack.defer(async () => {
    const ended = once(child, "exit");
    if (child.exitCode === null && child.kill()) await ended;
  });
  let address: unknown;
  if (child.stdout !== null) {
    for await (const line of createInterface({ input: child.stdout })) {
      const logged = JSON.parse(line) as JsonObject;
      address ??= logged["address"];
      if (logged["msg"] === "mcp server ready") return `http://${String(address)}/mcp`;
    }
  }
  throw new Error("The sidecar has ended.");
}

/** Asks as a runner does, without tools. @returns the text of the answer. */
async function ask(url: string): Promise<string> {
  const model = variable("MODEL");
  const isAnthropic = /anthropic/.test(variable("MODEL_URL") ?? "") || model?.startsWith("claude") === true;
  const messages = [{ role: "user", content: QUESTION }];
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
