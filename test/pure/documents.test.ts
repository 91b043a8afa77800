import { existsSync, globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { anchors, codeSpans, links, type Markdown, readDocument, readDocuments, ROOT, tableAfter } from "../support/markdown.ts";

const DOCUMENTS = readDocuments();
/** Paths that commands in the documents create. */
const MADE = [".claw-runtime/", "dist/", ".claw-discovered/"];

function scriptsOf(folder: string): string[] {
  const path = join(ROOT, folder, "package.json");
  if (!existsSync(path)) return [];
  return Object.keys((JSON.parse(readFileSync(path, "utf8")) as { scripts?: object }).scripts ?? {});
}

/** Returns true if a path or pattern exists, relative to the root, to the document, or to `src/`. */
function isThere(name: string, { path }: Markdown): boolean {
  return ["", dirname(path), "src"].some((base) => globSync(join(base, name), { cwd: ROOT }).length > 0);
}

function isOutside(link: string): boolean {
  return /^[a-z]+:/.test(link);
}

/** Returns the problem of a link within the repository, if it has one. */
function linkProblem(link: string, document: Markdown): string | undefined {
  const [file = "", anchor] = link.split("#");
  const path = file === "" ? document.path : join(dirname(document.path), file);
  if (path.startsWith("..") || !existsSync(join(ROOT, path))) return `${link}: no such file`;
  if (anchor !== undefined && !anchors(readDocument(path)).has(anchor)) return `${link}: no such heading`;
  return undefined;
}

describe("the documents of the repository", () => {
  it("the documents are found, including those with links to headings", () => {
    const paths = DOCUMENTS.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs/MIGRATION.md", "bench/README.md"]),
    );
    expect(DOCUMENTS.flatMap(links).filter((link) => !isOutside(link) && link.includes("#")).length).toBeGreaterThan(5);
  });

  it.each(DOCUMENTS)("each link leads to an existing file or heading: $path", (document) => {
    const inside = links(document).filter((link) => !isOutside(link));
    expect(inside.map((link) => linkProblem(link, document)).filter((problem) => problem !== undefined)).toEqual([]);
  });

  it.each(DOCUMENTS)("each link reference is defined and used: $path", ({ prose }) => {
    const names = (pattern: RegExp): Set<string | undefined> => new Set(Array.from(prose.matchAll(pattern), ([, name]) => name));
    expect(names(/\]\[([\w-]+)\]/g)).toEqual(names(/^\[([\w-]+)\]: /gm));
  });

  it.each(DOCUMENTS)("each named source file, test and folder exists: $path", (document) => {
    const names = codeSpans(document).filter((code) => /^[\w.*-]+(?:\/[\w.*-]+)*\/(?:[\w.*-]+\.\w+)?$|^[\w.*/-]*[\w*-]\.ts$/.test(code));
    const named = names.filter((name) => !MADE.some((made) => name.startsWith(made)));
    expect(named.filter((name) => !isThere(name, document))).toEqual([]);
  });

  it.each(DOCUMENTS)("each named npm script exists: $path", (document) => {
    const known = new Set([...scriptsOf("."), ...scriptsOf(dirname(document.path))]);
    const used = [...document.text.matchAll(/npm run (?:--?[a-z]+ )*([\w:-]+)|npm (test|start)\b/g)].map(
      ([, run, own]) => run ?? own ?? "",
    );
    expect(used.filter((name) => !known.has(name))).toEqual([]);
  });
});

describe("docs/COMPARISON.md", () => {
  it("each cell about another program cites a source", () => {
    const rows = tableAfter(readDocument("docs/COMPARISON.md"), "<!-- features:");
    const claims = rows.flatMap(([feature = "", , ...others]) => others.map((cell) => ({ feature, cell })));
    expect(claims.length).toBeGreaterThan(10);
    expect(claims.filter(({ cell }) => !/\]\[|\]\(/.test(cell))).toEqual([]);
  });
});

describe("CONTRIBUTING.md", () => {
  const contributing = readDocument("CONTRIBUTING.md");

  it("the table has a command for each kind of test and for the checks", () => {
    const tests = scriptsOf(".").filter((name) => name.startsWith("test:"));
    expect(tests.length).toBeGreaterThan(4);
    for (const name of ["check", "bench", "format", "docs", ...tests]) expect(contributing.text).toContain(`\`npm run ${name}\``);
  });
});

describe("CHANGELOG.md", () => {
  it("the first section is Unreleased, and the second is a released version of the package", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    const headings = [...readDocument("CHANGELOG.md").text.matchAll(/^## (\S+)/gm)].map(([, name]) => name);
    expect(headings[0]).toBe("Unreleased");
    expect(headings[1] === version).toBe(!version.endsWith("-dev"));
  });
});

describe("docs/ARCHITECTURE.md", () => {
  const architecture = readDocument("docs/ARCHITECTURE.md");

  it("the table has a row for every folder of src/", () => {
    const folders = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const rows = tableAfter(architecture, "## Folders and imports").map(([folder]) => folder);
    expect(new Set(rows)).toEqual(new Set(folders.map(({ name }) => `\`${name}/\``)));
  });
});
