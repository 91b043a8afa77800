import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));

export interface Markdown {
  readonly path: string;
  readonly text: string;
  /** The text without its code blocks. */
  readonly prose: string;
}

export function readDocuments(): Markdown[] {
  const paths = globSync("**/*.md", { cwd: ROOT, exclude: ["**/node_modules/**", "dist/**", "coverage/**"] });
  return paths.toSorted().map((path) => readDocument(path));
}

export function readDocument(path: string): Markdown {
  const text = readFileSync(`${ROOT}${path}`, "utf8");
  return { path, text, prose: text.replace(/^```[\s\S]*?^```$/gm, "") };
}

export function anchors({ prose }: Markdown): Set<string> {
  const found = new Set<string>();
  for (const [, heading = ""] of prose.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const shown = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    const slug = shown
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}\p{Pc}\- ]/gu, "")
      .replaceAll(" ", "-");
    let anchor = slug;
    for (let n = 1; found.has(anchor); n++) anchor = `${slug}-${n}`;
    found.add(anchor);
  }
  return found;
}

export function links({ prose }: Markdown): string[] {
  return [...prose.replace(/`[^`\n]*`(?!\]\()/g, "").matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
}

export function codeSpans({ prose }: Markdown): string[] {
  return [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code = ""]) => code);
}

/** Returns the rows of the first table after a text, without its head, each as its cells. */
export function tableAfter({ text }: Markdown, after: string): string[][] {
  const start = text.indexOf(after);
  if (start === -1) throw new Error(`no "${after}"`);
  const table = /(?:^\|.*\|$\n?)+/m.exec(text.slice(start))?.[0] ?? "";
  const rows = table.trimEnd().split("\n").slice(2);
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split("|")
      .map((cell) => cell.trim()),
  );
}
