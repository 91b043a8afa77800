// compile: the tools of a pod's agents. mediate: the proxy that executes them. demo: both, with a sidecar and a model.

import { appendFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { compile } from "./compile/compile.ts";
import { writeAgents } from "./compile/write.ts";
import { runDemo } from "./demo/demo.ts";
import { startMediator } from "./mediate/server.ts";

const USAGE = `Usage:
  main.ts compile POD [--out FOLDER] [--at SERVICE=URL]
      Write FOLDER/context/AGENT/tools.json for each agent of the pod. FOLDER is .claw-runtime beside the pod by default.
      --at names a service that is not at its address in the pod.
  main.ts mediate FOLDER [--host HOST] [--port PORT] [--trace FILE]
      Serve http://HOST:PORT/AGENT/v1/… with these tools. By default at 127.0.0.1:8400, with the trace on stdout.
  main.ts demo [--sidecar URL --descriptor FILE]
      Do all of it, with the echo server of this repository or a sidecar that runs.

MODEL_URL is the provider of the model, without /v1, and MODEL_API_KEY its key, if runners have none.
`;

const [command, ...rest] = process.argv.slice(2);
const value = { type: "string" } as const;
const options = {
  out: value,
  at: { type: "string", multiple: true },
  host: value,
  port: value,
  trace: value,
  sidecar: value,
  descriptor: value,
} as const;
const { values, positionals } = readCommandLine();
const [path] = positionals;
if (command === "compile" && path !== undefined) process.exitCode = compileTo(path, values.out ?? join(dirname(path), ".claw-runtime"));
else if (command === "mediate" && path !== undefined) await mediate(path);
else if (command === "demo") await runDemo(values.sidecar, values.descriptor);
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
    return URL.canParse(url) ? ([service, url.replace(/\/$/, "")] as const) : fail(`--at ${each} must be SERVICE=URL\n`);
  });
  const { agents, problems } = compile(resolve(pod), process.env, new Map(urls));
  for (const problem of problems) process.stderr.write(`${problem.file}:${problem.line}: ${problem.text}\n`);
  if (problems.length > 0) return 2;
  writeAgents(join(folder, "context"), agents);
  for (const { name, manifest } of agents)
    process.stdout.write(`${name}: ${manifest.tools.map((tool) => tool.name).join(", ") || "no tools"}\n`);
  return 0;
}

async function mediate(folder: string): Promise<void> {
  const modelUrl = process.env["MODEL_URL"];
  if (modelUrl === undefined) fail("MODEL_URL is not set: the provider of the model, such as https://api.openai.com\n");
  if (!URL.canParse(modelUrl)) fail(`MODEL_URL is not a URL: ${modelUrl}\n`);
  const { trace: traceFile, port = "8400" } = values;
  if (!/^\d{1,5}$/.test(port)) fail(`--port ${port} is not a port\n`);
  const mediator = await startMediator({
    contextFolder: join(folder, "context"),
    modelUrl,
    modelKey: process.env["MODEL_API_KEY"],
    host: values.host ?? "127.0.0.1",
    port: Number(port),
    onTrace: (line) => (traceFile === undefined ? process.stdout.write(line) : appendFileSync(traceFile, line)),
    warn: (text) => process.stderr.write(`${text}\n`),
  }).catch((error: Error) => fail(`${error.message}\n`));
  process.stderr.write(`listening at ${mediator.url}/AGENT/v1\n`);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void mediator[Symbol.asyncDispose]());
}
