import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

type Resource = AsyncDisposable | Disposable;

/** Disposes of several resources in the reverse order of `use`. Node 22 does not have `AsyncDisposableStack`. */
export class OwnedResources implements AsyncDisposable {
  #resources: Resource[] = [];

  use<T extends Resource>(resource: T): T {
    this.#resources.push(resource);
    return resource;
  }

  /** Ends the process, and waits for it. */
  useProcess(child: ChildProcess, signal: NodeJS.Signals = "SIGKILL"): void {
    const end = async (): Promise<void> => {
      const ended = once(child, "exit");
      if (child.exitCode === null && child.kill(signal)) await ended;
    };
    this.use({ [Symbol.asyncDispose]: end });
  }

  /** @returns a new owner of all resources. This one then owns none. */
  move(): OwnedResources {
    const owner = new OwnedResources();
    owner.#resources = this.#resources;
    this.#resources = [];
    return owner;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const last = this.#resources.pop();
    if (last === undefined) return;
    try {
      await (Symbol.asyncDispose in last ? last[Symbol.asyncDispose]() : last[Symbol.dispose]());
    } finally {
      await this[Symbol.asyncDispose]();
    }
  }
}
