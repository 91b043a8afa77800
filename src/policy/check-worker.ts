import { parentPort } from "node:worker_threads";
import type { CheckReply, CheckRequest } from "./argument-check.ts";
import { Checker } from "./checker.ts";

const checker = new Checker();

function reply(message: CheckReply): void {
  const { user, system } = process.threadCpuUsage();
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage({ ...message, cpuMs: (user + system) / 1000 });
}

parentPort?.on("message", (request: CheckRequest) => {
  if (request.kind === "check") return reply({ problems: checker.check(request.keys, request.argsText) });
  reply({ schemaProblem: checker.add(request.key, request.schemaText) });
});

// Compiles the metaschema, which takes longer than the first schema.
checker.add("", "{}");
reply({});
