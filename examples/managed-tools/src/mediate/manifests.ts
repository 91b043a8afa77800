import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { AGENT_NAME, Manifest, MANIFEST_FILE } from "../manifest.ts";

interface Loaded {
  readonly manifest: Manifest | undefined;
  /** Of the file: a change of it shows that it was replaced. */
  readonly version: string;
}

/** The manifests of all agents. Each is read again when its file has changed. */
export class Manifests {
  readonly #folder: string;
  readonly #warn: (text: string) => void;
  readonly #loaded = new Map<string, Loaded>();

  /** @param folder has a folder for each agent. */
  constructor(folder: string, warn: (text: string) => void) {
    [this.#folder, this.#warn] = [folder, warn];
  }

  /** True if the pod has this agent. */
  has(agent: string): boolean {
    if (!AGENT_NAME.test(agent)) return false;
    try {
      return statSync(join(this.#folder, agent)).isDirectory();
    } catch {
      return false;
    }
  }

  /** Returns the manifest of an agent; undefined without one. A file that cannot be used leaves the former one in force. */
  of(agent: string): Manifest | undefined {
    const file = join(this.#folder, agent, MANIFEST_FILE);
    let stat;
    try {
      stat = statSync(file);
    } catch {
      this.#loaded.delete(agent);
      return undefined;
    }
    const version = `${stat.ino} ${stat.mtimeMs} ${stat.size}`;
    const known = this.#loaded.get(agent);
    if (known?.version === version) return known.manifest;
    const manifest = this.#read(file) ?? known?.manifest;
    this.#loaded.set(agent, { manifest, version });
    return manifest;
  }

  #read(file: string): Manifest | undefined {
    try {
      return Manifest.parse(JSON.parse(readFileSync(file, "utf8")));
    } catch (error) {
      // The message of a syntax error quotes the file, which has tokens.
      this.#warn(`${file} cannot be used: ${error instanceof SyntaxError ? "it is not JSON" : (error as Error).message}`);
      return undefined;
    }
  }
}
