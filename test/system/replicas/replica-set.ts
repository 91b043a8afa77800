import { OwnedResources } from "../../support/owned-resources.ts";
import { freePort } from "../../support/open-sockets.ts";
import { Sidecar, type StartOptions } from "../../support/sidecar.ts";
import { Haproxy } from "./haproxy.ts";

/** Longer than the time in which HAProxy notices, also on a busy machine: more than the 2000 ms that examples/haproxy names. */
const PRE_STOP_MS = 5000;
const SESSION_KEY = "one-key-of-all-replicas-of-this-test";

/** The end of a replica, by the clock of the test. */
export interface Stop {
  readonly number: number;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Three sidecars with the same server and the same key, behind HAProxy. Use with `await using`. */
export class ReplicaSet implements AsyncDisposable {
  readonly haproxy: Haproxy;
  readonly #replicas: readonly Replica[];
  readonly #owned: OwnedResources;

  private constructor(haproxy: Haproxy, replicas: readonly Replica[], owned: OwnedResources) {
    [this.haproxy, this.#replicas, this.#owned] = [haproxy, replicas, owned];
  }

  /** @param running the number of replicas that are started; the others can be started later. */
  static async start(options: StartOptions = {}, running = 3): Promise<ReplicaSet> {
    await using owned = new OwnedResources();
    const replicas: Replica[] = [];
    const end = async (): Promise<void> => void (await Promise.all(replicas.map((replica) => replica[Symbol.asyncDispose]())));
    owned.use({ [Symbol.asyncDispose]: end });
    for (let number = 1; number <= 3; number++) replicas.push(new Replica(`127.0.0.1:${await freePort()}`, options));
    await Promise.all(replicas.slice(0, running).map((replica) => replica.start()));
    const haproxy = owned.use(await Haproxy.start(replicas.map(({ address }) => address)));
    for (let number = 1; number <= 3; number++) await haproxy.waitUntil(number, number <= running ? "up" : "down");
    return new ReplicaSet(haproxy, replicas, owned.move());
  }

  get url(): string {
    return `${this.haproxy.origin}/mcp`;
  }

  /** The running sidecars by number. */
  get running(): ReadonlyMap<number, Sidecar> {
    return new Map(this.#replicas.flatMap(({ sidecar }, index) => (sidecar === undefined ? [] : [[index + 1, sidecar] as const])));
  }

  /** @param number 1 to 3. @param options replace those of the set. */
  async startReplica(number: number, options: StartOptions = {}): Promise<Sidecar> {
    return this.#replica(number).start(options);
  }

  /** Ends a replica by a signal. @returns when HAProxy has noticed, and the process has ended. */
  async stop(number: number, signal: "SIGTERM" | "SIGKILL"): Promise<Stop> {
    const fromMs = performance.now();
    const order: string[] = [];
    const [untilMs] = await Promise.all([
      this.#replica(number)
        .end(signal)
        .finally(() => order.push("ended")),
      this.haproxy.waitUntil(number, "down").then(() => order.push("noticed")),
    ]);
    // Otherwise PRE_STOP_MS would be too short, and requests would be rejected.
    if (signal === "SIGTERM" && order[0] !== "noticed") throw new Error(`replica ${number} ended before HAProxy noticed`);
    return { number, fromMs, untilMs };
  }

  /** Ends a replica by a signal, and starts it again. @returns when HAProxy sends requests to it. */
  async restart(number: number, signal: "SIGTERM" | "SIGKILL"): Promise<Stop> {
    const stop = await this.stop(number, signal);
    await this.startReplica(number);
    await this.haproxy.waitUntil(number, "up");
    return stop;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned[Symbol.asyncDispose]();
  }

  #replica(number: number): Replica {
    const replica = this.#replicas[number - 1];
    if (replica === undefined) throw new Error(`there is no replica ${number}`);
    return replica;
  }
}

/** An address, and the sidecar that listens there. */
class Replica implements AsyncDisposable {
  readonly address: string;
  sidecar: Sidecar | undefined;
  readonly #options: StartOptions;

  constructor(address: string, options: StartOptions) {
    [this.address, this.#options] = [address, options];
  }

  async start(options: StartOptions = {}): Promise<Sidecar> {
    const merged = { ...this.#options, ...options };
    this.sidecar = await Sidecar.start({
      ...merged,
      address: this.address,
      env: {
        CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY,
        CLAW_MCP_STDIO_PRE_STOP_MS: String(PRE_STOP_MS),
        ...this.#options.env,
        ...options.env,
      },
    });
    return this.sidecar;
  }

  /** @returns the time at which the process ended, when its servers have ended too. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<number> {
    const { sidecar } = this;
    if (sidecar === undefined) throw new Error(`nothing listens at ${this.address}`);
    this.sidecar = undefined;
    await sidecar.stop(signal);
    const endedAtMs = performance.now();
    await sidecar[Symbol.asyncDispose]();
    return endedAtMs;
  }

  /** SIGTERM would take PRE_STOP_MS. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.sidecar !== undefined) await this.end("SIGKILL");
  }
}
