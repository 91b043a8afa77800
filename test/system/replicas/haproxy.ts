import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";

export const HAPROXY_CONFIG = fileURLToPath(new URL("../../../examples/haproxy/haproxy.cfg", import.meta.url));
const POLL_MS = 20;
const WAIT_TIMEOUT_MS = 120_000;

/** What HAProxy knows about a replica. */
interface Server {
  readonly isUp: boolean;
  /** The HTTP status of the last check, or the kind of its failure. Empty until a check has ended. */
  readonly lastCheck: string;
  readonly requests: number;
}

export interface LoggedRequest {
  /** The last replica that was tried. */
  readonly replica: string;
  readonly isFailure: boolean;
  readonly line: string;
}

/** An HAProxy with the configuration of the example. Use with `await using`. */
export class Haproxy implements AsyncDisposable {
  readonly origin: string;
  readonly log: string[] = [];
  readonly #socket: string;
  readonly #owned: OwnedResources;

  private constructor(origin: string, socket: string, child: ChildProcess, owned: OwnedResources) {
    this.origin = origin;
    [this.#socket, this.#owned] = [socket, owned];
    for (const output of [child.stdout, child.stderr]) {
      if (output !== null) createInterface({ input: output }).on("line", (line) => this.log.push(line));
    }
  }

  /** @param addresses those of the replicas. @returns when it has checked all of them. */
  static async start(addresses: readonly string[]): Promise<Haproxy> {
    await using owned = new OwnedResources();
    const folder = owned.use(await TempDir.create());
    const socket = folder.file("haproxy.sock");
    await writeFile(folder.file("stats.cfg"), `global\n  stats socket ${socket} mode 600 level user\n`);
    const bind = `127.0.0.1:${await freePort()}`;
    const replicas = Object.fromEntries(addresses.map((address, index) => [`REPLICA_${index + 1}`, address]));
    const child = spawn("haproxy", ["-db", "-f", HAPROXY_CONFIG, "-f", folder.file("stats.cfg")], {
      env: { ...process.env, ...replicas, BIND: bind },
      stdio: ["ignore", "pipe", "pipe"],
    });
    owned.useProcess(child);
    const haproxy = new Haproxy(`http://${bind}`, socket, child, owned.move());
    try {
      await haproxy.#waitFor("the first checks", async () => {
        if (child.exitCode !== null) throw new Error(`haproxy has ended:\n${haproxy.log.join("\n")}`);
        const servers = await haproxy.#servers();
        return servers.size > 0 && [...servers.values()].every(({ lastCheck }) => lastCheck !== "");
      });
    } catch (error) {
      await haproxy[Symbol.asyncDispose]();
      throw error;
    }
    return haproxy;
  }

  /** Waits until HAProxy sends requests to this replica, or no longer. @param number 1 to 3. */
  async waitUntil(number: number, state: "up" | "down"): Promise<void> {
    await this.#waitFor(`replica ${number} is ${state}`, async () => (await this.#server(number)).isUp === (state === "up"));
  }

  /** Waits until the last check of this replica got this HTTP status. */
  async waitForCheck(number: number, status: number): Promise<void> {
    await this.#waitFor(
      `a check of replica ${number} gets ${status}`,
      async () => (await this.#server(number)).lastCheck === String(status),
    );
  }

  /** Returns the number of requests that this replica got from clients. */
  async requestsTo(number: number): Promise<number> {
    return (await this.#server(number)).requests;
  }

  /** The requests that failed or were tried again. @param from the index of the first line that counts. */
  troubles(from = 0): LoggedRequest[] {
    return this.log.slice(from).flatMap((line) => {
      // The log format of `option httplog`: backend/server, times, status, …, the state at the end, of which `-` is a regular end.
      const [, replica, status, cause] = / replicas\/(\S+) [-\d/+]+ (-?\d+) \S+ \S+ \S+ (\S)/.exec(line) ?? [];
      return replica === undefined ? [] : [{ replica, isFailure: status !== "200" || cause !== "-", line }];
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned[Symbol.asyncDispose]();
  }

  async #server(number: number): Promise<Server> {
    const server = (await this.#servers()).get(`replica-${number}`);
    if (server === undefined) throw new Error(`haproxy does not know replica ${number}`);
    return server;
  }

  /** Empty until HAProxy has opened its socket. */
  async #servers(): Promise<Map<string, Server>> {
    const [head = "", ...lines] = (await this.#ask("show stat")).replace(/^# /, "").trim().split("\n");
    const columns = head.split(",");
    const rows = lines.map((line) => new Map(line.split(",").map((value, index) => [columns[index] ?? "", value])));
    const servers = rows.filter((row) => row.get("pxname") === "replicas" && row.get("svname") !== "BACKEND");
    return new Map(servers.map((row) => [row.get("svname") ?? "", readServer(row)]));
  }

  async #ask(command: string): Promise<string> {
    const socket = connect(this.#socket);
    try {
      await once(socket, "connect");
    } catch {
      return "";
    }
    socket.end(`${command}\n`);
    return text(socket);
  }

  async #waitFor(what: string, isTrue: () => Promise<boolean>): Promise<void> {
    const deadlineMs = performance.now() + WAIT_TIMEOUT_MS;
    while (!(await isTrue())) {
      if (performance.now() > deadlineMs) throw new Error(`timeout before ${what}:\n${this.log.join("\n")}`);
      await delay(POLL_MS);
    }
  }
}

function readServer(row: ReadonlyMap<string, string>): Server {
  const [status = "", checkStatus = "", checkCode = ""] = ["status", "check_status", "check_code"].map((name) => row.get(name));
  const isChecked = checkStatus !== "" && !checkStatus.startsWith("INI");
  return {
    isUp: status.startsWith("UP"),
    lastCheck: isChecked ? checkCode.replace(/^0?$/, checkStatus) : "",
    requests: Number(row.get("stot")),
  };
}
