import { execFile } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { EXAMPLES } from "../../support/example-files.ts";
import { send } from "../../support/http-client.ts";
import { ModernClient } from "../../support/modern-client.ts";
import { freePort } from "../../support/open-sockets.ts";
import { ShellCommand } from "../../support/shell-command.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { HAPROXY_CONFIG } from "./haproxy.ts";
import { ReplicaSet } from "./replica-set.ts";

const CALLS = 30;

async function callTimes(client: ModernClient, count: number): Promise<string[]> {
  const texts: string[] = [];
  for (let call = 1; call <= count; call++) texts.push(await client.toolText("echo", { text: `call ${call}` }));
  return texts;
}

async function statusOf(url: string): Promise<number> {
  return (await send(url, { method: "GET" })).status;
}

it("the configuration is valid without variables", async () => {
  // -dW: a warning is an error.
  await expect(promisify(execFile)("haproxy", ["-c", "-dW", "-f", HAPROXY_CONFIG])).resolves.toBeDefined();
});

describe("examples/haproxy/start.sh", () => {
  const script = `${EXAMPLES}haproxy/start.sh`;

  it("starts three replicas behind HAProxy, and a replica again that ends", async () => {
    const bind = `127.0.0.1:${await freePort()}`;
    const ports = [await freePort(), await freePort(), await freePort()];
    await using replicas = new ShellCommand(script, { ...process.env, BIND: bind, PORTS: ports.join(" ") });
    await replicas.untilOutput("ready  ");
    const client = new ModernClient(`http://${bind}/mcp`);
    await expect(callTimes(client, 3)).resolves.toEqual(["call 1", "call 2", "call 3"]);
    const commands = (): readonly string[] => replicas.output.match(/kill \d+/g) ?? [];
    const known = commands();
    await promisify(execFile)("sh", ["-c", known.at(-1) ?? ""]);
    await expect.poll(() => commands().length, { timeout: 30_000 }).toBeGreaterThan(known.length);
    await expect(callTimes(client, 3)).resolves.toEqual(["call 1", "call 2", "call 3"]);
  });

  it("ends with the reason if the address is taken", async () => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    const bind = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const ports = [await freePort(), await freePort(), await freePort()];
    const starting = promisify(execFile)(script, { env: { ...process.env, BIND: bind, PORTS: ports.join(" ") } });
    await expect(starting).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining("cannot bind socket") as string });
    taken.close();
  });
});

it("a new replica gets no request before its server is ready", async () => {
  await using folder = await TempDir.create();
  const gate = folder.file("gate");
  await using replicas = await ReplicaSet.start({}, 2);
  const client = new ModernClient(replicas.url);
  const right = Array.from({ length: CALLS }, (_, index) => `call ${index + 1}`);

  await replicas.startReplica(3, { mode: "gated", env: { FIXTURE_GATE: gate }, untilReady: false });
  await replicas.haproxy.waitForCheck(3, 503);
  await expect(callTimes(client, CALLS)).resolves.toEqual(right);
  await expect(replicas.haproxy.requestsTo(3)).resolves.toBe(0);

  await writeFile(gate, "");
  await replicas.haproxy.waitUntil(3, "up");
  await expect(callTimes(client, CALLS)).resolves.toEqual(right);
  await expect(replicas.haproxy.requestsTo(3)).resolves.toBe(CALLS / 3);
  expect(replicas.haproxy.troubles()).toEqual([]);
});

it("HAProxy is ready when a replica is, and has no other path of a replica", async () => {
  await using replicas = await ReplicaSet.start({}, 0);
  await expect(statusOf(`${replicas.haproxy.origin}/readyz`)).resolves.toBe(503);
  await replicas.startReplica(2);
  await replicas.haproxy.waitUntil(2, "up");
  await expect(statusOf(`${replicas.haproxy.origin}/readyz`)).resolves.toBe(200);
  const others = ["/status", "/metrics", "/"].map((path) => statusOf(replicas.haproxy.origin + path));
  await expect(Promise.all(others)).resolves.toEqual([404, 404, 404]);
});
