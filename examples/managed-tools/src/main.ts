// compile: the tools of a pod's agents. mediate: the proxy that executes them. demo: both, with a sidecar and a model.

import { appendFileSync, existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { compile } from "./compile/compile.ts";
import { writeAgents } from "./compile/write.ts";
import { isHttpAddress, TOKEN } from "./manifest.ts";
import { runDemo } from "./demo/demo.ts";
import { hostOf } from "./mediate/guards.ts";
import { startMediator } from "./mediate/server.ts";

const USAGE = `Usage:
  main.ts compile POD [--out FOLDER] [--at SERVICE=URL]
      Write FOLDER/context/AGENT/tools.json for each agent of the pod. FOLDER is .claw-runtime beside the pod by default.
      --at names a service that is not at its address in the pod, such as echo=http://127.0.0.1:8080. It may occur several times.
  main.ts mediate FOLDER [--host HOST] [--port PORT] [--trace FILE] [--allow-host NAME]
      Serve http://HOST:PORT/AGENT/v1/… with these tools. By default at 127.0.0.1:8400, with the trace on stdout.
      --allow-host is a name of the proxy besides localhost, addresses, and names of containers. It may occur several times.
  main.ts demo [POD] [--sidecar SERVICE=URL]
      Do all of it for the first agent of a pod. A scripted model follows conversation.json beside the pod. Sidecars are started unless
      --sidecar names one that runs, such as echo=http://127.0.0.1:8080/mcp. POD is the one of this folder by default.

MODEL_URL is the provider of the model, without /v1. MODEL_API_KEY replaces the keys of runners; without it, they are passed on.
`;

const [command, ...rest] = process.argv.slice(2);
const value = { type: "string" } as const;
const options = {
  out: value,
  at: { type: "string", multiple: true },
  host: value,
  port: value,
  trace: value,
  "allow-host": { type: "string", multiple: true },
  sidecar: { type: "string", multiple: true },
} as const;
const { values, positionals } = readCommandLine();
const [path] = positionals;
if (command === "compile" && path !== undefined) process.exitCode = compileTo(path, values.out ?? join(dirname(path), ".claw-runtime"));
else if (command === "mediate" && path !== undefined) await mediate(path);
else if (command === "--help" || command === "-h") process.stdout.write(USAGE);
else if (command === "demo") await demo(path ?? fileURLToPath(new URL("../claw-pod.yml", import.meta.url)));
else fail(USAGE);

function readCommandLine() {
  try {
    return parseArgs({ args: rest, options, allowPositionals: true });
  } catch (error) {
    return fail(`${(error as Error).message}\n${USAGE}`);
  }
}

function fail(text: string): never {
  process.stderr.write(text);
  process.exit(2);
}

/** @returns the exit code. */
function compileTo(pod: string, folder: string): number {
  const urls = (values.at ?? []).map((each) => {
    const [, service = "", url = ""] = /^([^=]+)=(.*)$/.exec(each) ?? [];
    return isHttpAddress(url) && new URL(url).pathname === "/"
      ? ([service, url.replace(/\/$/, "")] as const)
      : fail(`--at ${each} must be SERVICE=URL, with a URL like http://127.0.0.1:8080\n`);
  });
  const { agents, problems } = compile(resolve(pod), process.env, new Map(urls));
  for (const problem of problems) process.stderr.write(`${problem.file}:${problem.line}: ${problem.text}\n`);
  if (problems.length > 0) return 2;
  if (agents.length === 0) process.stderr.write("The pod has no agents: no service has x-claw.cllama.\n");
  try {
    writeAgents(join(folder, "context"), agents);
  } catch (error) {
    fail(`${(error as Error).message}\n`);
  }
  for (const { name, manifest } of agents)
    process.stdout.write(`${name}: ${manifest.tools.map((tool) => tool.name).join(", ") || "no tools"}\n`);
  return 0;
}

async function demo(pod: string): Promise<void> {
  const sidecars = (values.sidecar ?? []).map((each) => {
    const [, service = "", url = ""] = /^([^=]+)=(.*)$/.exec(each) ?? [];
    return isHttpAddress(url)
      ? ([service, url] as const)
      : fail(`--sidecar ${each} must be SERVICE=URL, with a URL like http://127.0.0.1:8080/mcp\n`);
  });
  await runDemo(resolve(pod), new Map(sidecars)).catch((error: Error) => {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  });
}

async function mediate(folder: string): Promise<void> {
  const modelUrl = process.env["MODEL_URL"];
  if (modelUrl === undefined) fail("MODEL_URL is not set: the provider of the model, such as https://api.openai.com\n");
  if (/\/v1\/?$/.test(modelUrl)) fail("MODEL_URL must be without /v1\n");
  const contextFolder = join(folder, "context");
  const agents = existsSync(contextFolder) ? readdirSync(contextFolder).toSorted() : [];
  if (agents.length === 0) fail(`${contextFolder} has no agents: run compile, and name its folder .claw-runtime\n`);
  if (!isHttpAddress(modelUrl)) fail("MODEL_URL must be like https://api.openai.com, without credentials and without a query\n");
  const modelKey = process.env["MODEL_API_KEY"] || undefined;
  if (modelKey !== undefined && !TOKEN.test(modelKey)) fail("MODEL_API_KEY has characters that no header can have\n");
  process.stdout.on("error", () => process.stderr.write("stdout is closed: the trace is lost\n"));
  const { trace: traceFile, port = "8400" } = values;
  if (!/^\d{1,5}$/.test(port)) fail(`--port ${port} is not a port\n`);
  const allowedHosts = (values["allow-host"] ?? []).map((name) => hostOf(`http://${name}`) || fail(`--allow-host ${name} is not a host\n`));
  const mediator = await startMediator({
    contextFolder,
    modelUrl,
    modelKey,
    host: values.host ?? "127.0.0.1",
    port: Number(port),
    allowedHosts,
    onTrace: (line) => (traceFile === undefined ? process.stdout.write(line) : appendFileSync(traceFile, line)),
    warn: (text) => process.stderr.write(`${text}\n`),
  }).catch((error: Error) => fail(`${error.message}\n`));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void mediator.close().finally(() => process.exit()));
  process.stderr.write(`listening at ${mediator.url}/AGENT, with the agents ${agents.join(", ")}\n`);
}
