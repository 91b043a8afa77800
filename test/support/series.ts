import { send } from "./http-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";

type Labels = Readonly<Record<string, string | undefined>>;

export class Series {
  readonly #series: readonly { readonly name: string; readonly labels: Labels; readonly value: number }[];

  /** @param text in the text format of Prometheus. */
  constructor(text: string) {
    this.#series = text
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map(parse);
  }

  static async read({ origin }: Pick<RunningSidecar, "origin">, headers: Readonly<Record<string, string>> = {}): Promise<Series> {
    const { status, body } = await send(`${origin}/metrics`, { method: "GET", headers });
    if (status !== 200) throw new Error(`/metrics: ${status} ${body}`);
    return new Series(body);
  }

  get size(): number {
    return this.#series.length;
  }

  get names(): ReadonlySet<string> {
    return new Set(this.#series.map(({ name }) => name));
  }

  labelsOf(name: string): ReadonlySet<string> | undefined {
    const own = this.#series.filter((each) => each.name === name);
    return own.length === 0 ? undefined : new Set(own.flatMap(({ labels }) => Object.keys(labels)));
  }

  values(name: string, label: string): Set<string> {
    const values = this.#series.flatMap((each) => (each.name === name ? [each.labels[label]] : []));
    return new Set(values.filter((value) => value !== undefined));
  }

  /** Returns the sum of the series with these labels; undefined stands for a label that is absent. */
  sum(name: string, labels: Labels = {}): number {
    const wanted = Object.entries(labels);
    return this.#series
      .filter((each) => each.name === name && wanted.every(([label, value]) => each.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0);
  }
}

function parse(line: string): { readonly name: string; readonly labels: Labels; readonly value: number } {
  const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  if (name === "") throw new Error(`no series: ${line}`);
  const pairs = labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
  return { name, labels: Object.fromEntries(pairs.map(([, label = "", text = ""]) => [label, text])), value: Number(value) };
}
