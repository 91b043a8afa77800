// Measures bursts of requests that are sent ahead and never read, beside a plain server of `node:http` that answers 401; see README.md.

import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { LivezWatcher } from "../hostile/observer/livez.ts";
import { treeCpuMs } from "./process-cpu.ts";
import { TargetProcess } from "./target-process.ts";
import { type Target, thisBuild } from "./targets.ts";

const REQUEST = "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const BURST = REQUEST.repeat((64 * 1024) / REQUEST.length);
const CONNECTIONS = [20, 100, 300];
const MOST_GAP_MS = 500;
const MOST_RATIO = 0.6;
/** The default of DRAIN_TIMEOUT_MS, and four seconds. */
const MOST_EXIT_MS = 9000;
/** A target is done when it uses less than a tenth of a core for this long. */
const QUIET_MS = 1000;
const HANG_MS = 60_000;

const PLAIN: Target = { ...thisBuild(), name: "plain", healthPath: "/livez", nodeArgs: (port) => [import.meta.filename, String(port)] };

const [plainPort] = process.argv.slice(2);
if (plainPort === undefined) await measure();
else servePlain(Number(plainPort));

function servePlain(port: number): void {
  const body = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"The Authorization header is missing."}}';
  createServer((request, response) => {
    if (request.url === "/livez") response.end();
    else response.writeHead(401, { "Content-Type": "application/json", "Content-Length": body.length }).end(body);
  }).listen(port, "127.0.0.1");
}

async function measure(): Promise<void> {
  // Exit handlers kill the targets.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
  const missed: string[] = [];
  process.stdout.write(
    "| connections | gap, ms | plain | ratio | CPU, ms | plain | ratio |\n| --- | --- | --- | --- | --- | --- | --- |\n",
  );
  for (const count of CONNECTIONS) {
    const [ours, plain] = [await flood(thisBuild(), count), await flood(PLAIN, count)];
    const [gapRatio, cpuRatio] = [ours.gapMs / plain.gapMs, ours.cpuMs / plain.cpuMs];
    const cells = [count, ours.gapMs.toFixed(0), plain.gapMs.toFixed(0), gapRatio.toFixed(2)];
    process.stdout.write(`| ${[...cells, ours.cpuMs, plain.cpuMs, cpuRatio.toFixed(2)].join(" | ")} |\n`);
    if (count === CONNECTIONS[0] ? ours.gapMs > MOST_GAP_MS : Math.max(gapRatio, cpuRatio) > MOST_RATIO)
      missed.push(`${count} connections`);
  }
  for (const kind of ["silent", "sending"] as const) {
    const exitMs = await timeExit(300, kind === "sending");
    process.stdout.write(`exit after SIGTERM, 300 ${kind} connections: ${exitMs.toFixed(0)} ms\n`);
    if (exitMs > MOST_EXIT_MS) missed.push(`exit with ${kind} connections`);
  }
  for (const what of missed) process.stdout.write(`MISSED: ${what}\n`);
  process.exit(missed.length === 0 ? 0 : 1);
}

/** Sends a burst on each connection, and waits until the target has done its work. */
async function flood(target: Target, count: number): Promise<{ readonly gapMs: number; readonly cpuMs: number }> {
  await using running = await TargetProcess.start(target);
  const livez = new LivezWatcher(`http://127.0.0.1:${running.port}`, running.pid);
  await sleep(QUIET_MS);
  const beforeMs = treeCpuMs(running.pid);
  const sockets = Array.from({ length: count }, () => burst(running.port).pause());
  for (let lastMs = beforeMs, quietMs = -QUIET_MS; quietMs < QUIET_MS; quietMs += 200) {
    await sleep(200);
    const cpuMs = treeCpuMs(running.pid);
    if (cpuMs - lastMs > 20) quietMs = Math.min(quietMs, 0) - 200;
    lastMs = cpuMs;
  }
  const cpuMs = treeCpuMs(running.pid) - beforeMs;
  await livez.stop();
  for (const socket of sockets) socket.destroy();
  return { gapMs: livez.gapMs, cpuMs };
}

/** Returns the time from SIGTERM to the exit. @param isSending true if each connection that is closed is replaced at once. */
async function timeExit(count: number, isSending: boolean): Promise<number> {
  await using running = await TargetProcess.start(thisBuild());
  let isOver = false;
  const open = (): void => {
    const socket = burst(running.port);
    if (isSending) socket.resume().once("close", () => isOver || setImmediate(open));
    else socket.pause();
  };
  for (let index = 0; index < count; index++) open();
  await sleep(QUIET_MS);
  const sentAtMs = performance.now();
  process.kill(running.pid, "SIGTERM");
  await Promise.race([running.exited, sleep(HANG_MS)]);
  isOver = true;
  return performance.now() - sentAtMs;
}

function burst(port: number): Socket {
  const socket = connect(port, "127.0.0.1").on("error", () => undefined);
  socket.write(BURST);
  return socket;
}
