import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { setTimeout as delay } from "node:timers/promises";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";

const RULES = fileURLToPath(new URL("../../../examples/observability/rules.yml", import.meta.url));
const POLL_MS = 200;

export interface Alert {
  readonly state: "pending" | "firing";
  readonly labels: Readonly<Record<string, string>>;
}

/** A Prometheus with the rules of the example, which scrapes twice a second. Their minutes, which promtool tests, are seconds here. Use with `await using`. */
export class Prometheus implements AsyncDisposable {
  readonly #url: string;
  readonly #owned: OwnedResources;

  private constructor(url: string, owned: OwnedResources) {
    [this.#url, this.#owned] = [url, owned];
  }

  /** @param targets addresses by the name that the label `instance` gets. */
  static async start(targets: Readonly<Record<string, string>>): Promise<Prometheus> {
    await using owned = new OwnedResources();
    const folder = owned.use(await TempDir.create());
    const address = `127.0.0.1:${await freePort()}`;
    const rules = await readFile(RULES, "utf8");
    await writeFile(folder.file("rules.yml"), rules.replaceAll(/^( +for: \d+)m$/gm, "$1s"));
    // JSON is YAML.
    const config = {
      global: { scrape_interval: "500ms", scrape_timeout: "500ms", evaluation_interval: "500ms" },
      rule_files: [folder.file("rules.yml")],
      scrape_configs: [
        {
          job_name: "mcp",
          static_configs: Object.entries(targets).map(([instance, target]) => ({ targets: [target], labels: { instance } })),
        },
      ],
    };
    await writeFile(folder.file("prometheus.yml"), JSON.stringify(config));
    const flags = [`--config.file=${folder.file("prometheus.yml")}`, `--storage.tsdb.path=${folder.file("data")}`];
    const child = spawn("prometheus", [...flags, `--web.listen-address=${address}`], { stdio: ["ignore", "ignore", "pipe"] });
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => (log += chunk.toString()));
    owned.useProcess(child);
    const url = `http://${address}`;
    while (!(await isReady(url))) {
      if (child.exitCode !== null) throw new Error(`prometheus has ended:\n${log}`);
      await delay(POLL_MS);
    }
    return new Prometheus(url, owned.move());
  }

  /** Returns the number of series that a query has now. */
  async count(query: string): Promise<number> {
    const { result } = (await this.#get(`query?query=${encodeURIComponent(query)}`)) as { readonly result: readonly unknown[] };
    return result.length;
  }

  async waitFor(query: string, count: number): Promise<void> {
    while ((await this.count(query)) < count) await delay(POLL_MS);
  }

  async alerts(): Promise<readonly Alert[]> {
    const { alerts } = (await this.#get("alerts")) as { readonly alerts: readonly Alert[] };
    return alerts;
  }

  /** Waits until these alerts fire, as NAME INSTANCE. */
  async waitForAlerts(wanted: readonly string[]): Promise<void> {
    for (let missing = wanted; missing.length > 0; await delay(POLL_MS)) {
      const firing = new Set((await this.alerts()).filter(({ state }) => state === "firing").map(nameOf));
      missing = wanted.filter((each) => !firing.has(each));
    }
  }

  async #get(path: string): Promise<unknown> {
    const response = await fetch(`${this.#url}/api/v1/${path}`);
    const body = (await response.json()) as { readonly status: string; readonly error?: string; readonly data: unknown };
    if (body.status !== "success") throw new Error(`${path}: ${body.error}`);
    return body.data;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned[Symbol.asyncDispose]();
  }
}

export function nameOf({ labels }: Alert): string {
  return `${labels["alertname"]} ${labels["instance"]}`;
}

export async function dashboardQueries(): Promise<string[]> {
  const file = fileURLToPath(new URL("../../../examples/observability/dashboard.json", import.meta.url));
  const { panels } = JSON.parse(await readFile(file, "utf8")) as { panels: readonly { targets?: readonly { expr: string }[] }[] };
  return panels
    .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    .map((expr) => expr.replaceAll("$job", "mcp").replaceAll("$instance", ".+").replaceAll("$__rate_interval", "1m"));
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/-/ready`)).ok;
  } catch {
    return false;
  }
}
