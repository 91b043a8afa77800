import { rename, writeFile } from "node:fs/promises";
import { FIXTURE } from "./sidecar.ts";
import { TempDir } from "./temp-dir.ts";

/** A server whose next start is decided by a test, as a shell command. Running processes are not affected. */
export class ChosenServer extends TempDir {
  readonly #script = this.file("start.sh");
  readonly command: readonly string[] = ["sh", "-c", `. "${this.#script}"`];

  /** @param first a mode of the fixture. */
  static override async create(first = "normal"): Promise<ChosenServer> {
    const server = new ChosenServer(await TempDir.make());
    await server.chooseMode(first);
    return server;
  }

  chooseMode(mode: string): Promise<void> {
    return this.choose(`exec "${process.execPath}" "${FIXTURE}" ${mode}`);
  }

  async choose(script: string): Promise<void> {
    // Atomically: the server may start at any time.
    await writeFile(`${this.#script}.new`, `${script}\n`);
    await rename(`${this.#script}.new`, this.#script);
  }

  /** From the next start on, the server prints this reason to stderr and exits with this code. */
  chooseExit(exitCode: number, lastWords = "cannot open the database"): Promise<void> {
    return this.choose(`echo "${lastWords}" >&2; exit ${exitCode}`);
  }
}
