import { randomInt } from "node:crypto";
import { OwnedResources } from "./owned-resources.ts";
import { type LogLine, Sidecar, type StartOptions } from "./sidecar.ts";
import type { JsonRpcMessage } from "./json-rpc.ts";

/**
 * A sidecar that is killed and started again at the same address, with all its processes as one resource. The host of the address is its
 * own, because others could take the port in between.
 */
export class RestartableSidecar implements AsyncDisposable {
  readonly #options: StartOptions;
  readonly #processes = new OwnedResources();
  #current: Sidecar;

  private constructor(options: StartOptions, first: Sidecar) {
    this.#options = options;
    this.#current = this.#processes.use(first);
  }

  static async start(options: StartOptions): Promise<RestartableSidecar> {
    const address = `127.${randomInt(1, 255)}.${randomInt(1, 255)}.${randomInt(1, 255)}:0`;
    return new RestartableSidecar(options, await Sidecar.start({ ...options, address }));
  }

  /** The process that runs, or the one that ran last. */
  get current(): Sidecar {
    return this.#current;
  }

  get url(): string {
    return this.#current.url;
  }

  /** Sends SIGKILL, and starts the next process. @param changes options that replace those of the first one. */
  async killAndRestart(changes: StartOptions = {}): Promise<Sidecar> {
    const { address } = this.#current;
    await this.#current.stop("SIGKILL");
    this.#current = this.#processes.use(await Sidecar.start({ ...this.#options, ...changes, address }));
    return this.#current;
  }

  /** Returns the log lines of the client's requests of this method to the current process; needs REQUEST_LOG=all. */
  requests(method: string): LogLine[] {
    return this.#current.logLines.filter((line) => line.msg.startsWith("request ") && line["method"] === method);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#processes[Symbol.asyncDispose]();
  }
}

/** A key of sessions that survive the sidecar. */
const SESSION_KEY = "session-key-of-more-than-32-characters-0123456789";

export const KEYED = { CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY };

/** Any client of the fixture. */
interface Caller {
  toolText(name: string): Promise<string>;
}

export async function receivedInitializes(client: Caller): Promise<unknown[]> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  const messages = lines.map((line) => JSON.parse(line) as JsonRpcMessage);
  return messages.filter(({ method }) => method === "initialize").map(({ params }) => params);
}
