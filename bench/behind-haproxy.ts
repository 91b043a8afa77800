// Runs sidecars behind HAProxy, with the configuration of the example. Usage: behind-haproxy.ts PORT COUNT. As one target, its process group is
// killed as a whole.

import { type ChildProcess, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { join } from "node:path";
import { findFreePort } from "./free-port.ts";
import { thisBuild } from "./targets.ts";

const CONFIG = join(import.meta.dirname, "..", "examples", "haproxy", "haproxy.cfg");
/** The number of replicas in the configuration. */
const SERVERS = 3;
const POLL_MS = 20;

const [port = "", count = ""] = process.argv.slice(2);
const { healthPath, nodeArgs } = thisBuild();
const ports: number[] = [];
for (let replica = 0; replica < Number(count); replica++) ports.push(await findFreePort());
for (const each of ports) watch(spawn(process.execPath, nodeArgs(each), { stdio: ["ignore", "inherit", "inherit"] }));
for (const each of ports) while (!(await answersOk(`http://127.0.0.1:${each}${healthPath}`))) await sleep(POLL_MS);
// Too few replicas take several places each.
const addresses = Array.from({ length: SERVERS }, (_, index) => `127.0.0.1:${ports[index % ports.length]}`);
const [REPLICA_1, REPLICA_2, REPLICA_3] = addresses;
const env = { ...process.env, REPLICA_1, REPLICA_2, REPLICA_3, BIND: `127.0.0.1:${port}` };
watch(spawn("haproxy", ["-db", "-f", CONFIG], { env, stdio: ["ignore", "inherit", "inherit"] }));

/** Ends this process when the given one has ended. */
function watch(child: ChildProcess): void {
  child.once("error", (error) => fail(error.message));
  child.once("exit", (code, signal) => fail(`${child.spawnfile} exited: ${code ?? signal}`));
}

function fail(reason: string): void {
  process.stderr.write(`${reason}\n`);
  process.exit(1);
}

async function answersOk(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok;
  } catch {
    return false;
  }
}
