import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { helpText } from "../../src/cli/help.ts";
import { ExitCode } from "../../src/cli/terminal.ts";
import { readCommandLine } from "../../src/config/command-line.ts";
import { loadConfig } from "../../src/config/load.ts";
import { OPTIONS } from "../../src/config/options.ts";
import { ERROR_CATALOG } from "../../src/mcp/errors.ts";
import { LOG_FIELDS } from "../../src/observe/log.ts";
import { anchors, codeSpans, links, type Markdown, readDocument, readDocuments, ROOT, tableAfter } from "../support/markdown.ts";
import { isLiteral, isLogged, isPrinted } from "../support/messages.ts";

const DOCUMENTS = readDocuments();
/** Paths that commands in the documents create. */
const MADE = [".claw-runtime/", "dist/", ".claw-discovered/"];

function scriptsOf(folder: string): string[] {
  const path = join(ROOT, folder, "package.json");
  if (!existsSync(path)) return [];
  return Object.keys((JSON.parse(readFileSync(path, "utf8")) as { scripts?: object }).scripts ?? {});
}

function isThere(name: string, { path }: Markdown): boolean {
  return ["", dirname(path), "src"].some((base) => globSync(join(base, name), { cwd: ROOT }).length > 0);
}

function linkProblem(link: string, document: Markdown): string | undefined {
  const [file = "", anchor] = link.split("#");
  const path = file === "" ? document.path : join(dirname(document.path), file);
  if (path.startsWith("..") || !existsSync(join(ROOT, path))) return `${link}: no such file`;
  if (anchor !== undefined && !anchors(readDocument(path)).has(anchor)) return `${link}: no such heading`;
  return undefined;
}

describe.each(DOCUMENTS)("$path", (document) => {
  it("each link leads to an existing file or heading, and each reference is defined", () => {
    const inside = links(document).filter((link) => !/^[a-z]+:/.test(link));
    expect(inside.map((link) => linkProblem(link, document)).filter((problem) => problem !== undefined)).toEqual([]);
    const names = (pattern: RegExp): Set<string | undefined> => new Set(Array.from(document.prose.matchAll(pattern), ([, name]) => name));
    expect(names(/\]\[([\w-]+)\]/g)).toEqual(names(/^\[([\w-]+)\]: /gm));
  });

  it("each named file, folder and npm script exists", () => {
    const names = codeSpans(document).filter((code) => /^[\w.*-]+(?:\/[\w.*-]+)*\/(?:[\w.*-]+\.\w+)?$|^[\w.*/-]*[\w*-]\.ts$/.test(code));
    const named = names.filter((name) => !MADE.some((made) => name.startsWith(made)));
    expect(named.filter((name) => !isThere(name, document))).toEqual([]);
    const known = new Set([...scriptsOf("."), ...scriptsOf(dirname(document.path))]);
    const used = document.text.matchAll(/npm run (?:--?[a-z]+ )*([\w:-]+)|npm (test|start)\b/g);
    expect(Array.from(used, ([, run, own]) => run ?? own ?? "").filter((name) => !known.has(name))).toEqual([]);
  });
});

/** Names in capitals that are neither options nor error codes: variables of Node, and the first word of a result. */
const FOREIGN_NAMES = ["NODE_DEBUG", "NODE_OPTIONS", "INVALID_ARGS"];
const KNOWN_NAMES = new Set([
  ...Object.keys(ERROR_CATALOG),
  ...Object.values(OPTIONS).flatMap(({ variable }) => [variable, variable.replace("CLAW_MCP_STDIO_", "")]),
  ...FOREIGN_NAMES,
]);
const GUIDES = DOCUMENTS.filter(({ path }) => /^(SECURITY|docs\/(operations\/.*|TROUBLESHOOTING|GLOSSARY|MIGRATION))\.md$/.test(path));

describe("the operator's guides", () => {
  it.each(GUIDES)("$path names only options and error codes that exist", ({ path, prose }) => {
    const names = path.endsWith("MIGRATION.md") ? /CLAW_MCP_STDIO_[A-Z]\w*/g : /\b(?!CLAW_MCP$|CLAW_MCP_STDIO$)[A-Z]+(?:_[A-Z]+)+\b/g;
    expect((prose.match(names) ?? []).filter((name) => !KNOWN_NAMES.has(name))).toEqual([]);
  });

  it("exit-codes.md has the exit codes of the program and its help", () => {
    const codes = [...Object.values(ExitCode).map(String), "128 + n"];
    const rows = tableAfter(readDocument("docs/operations/exit-codes.md"), "# Exit codes\n");
    expect(rows.map(([code = ""]) => code.replaceAll("`", ""))).toEqual(codes);
    const [, help = ""] = helpText(undefined, true).split("Exit codes:\n");
    expect([...help.matchAll(/^ {2}(\d+(?: \+ n)?) /gm)].map(([, code]) => code)).toEqual(codes);
  });

  it("logs.md has each field of a log line", () => {
    const rows = tableAfter(readDocument("docs/operations/logs.md"), "## Fields\n");
    const names = rows.flatMap(([cell = ""]) => Array.from(cell.matchAll(/`(\w+)`/g), ([, name = ""]) => name));
    expect(names.toSorted()).toEqual(LOG_FIELDS.toSorted());
  });

  it.each([
    ["logs", "## Messages\n"],
    ["pinned-descriptor", "such as `readOnlyHint` |\n"],
  ])("%s.md has only log messages that the program writes, at their level", (name, after) => {
    const rows = tableAfter(readDocument(`docs/operations/${name}.md`), after);
    expect(rows.length).toBeGreaterThan(2);
    expect(rows.filter(([message = "", level = ""]) => !isLogged(message.slice(1, -1), level))).toEqual([]);
  });
});

describe("docs/TROUBLESHOOTING.md", () => {
  const guide = readDocument("docs/TROUBLESHOOTING.md");

  /** Texts in backticks after one of these words. */
  function quotes(words: string): string[] {
    return Array.from(guide.prose.matchAll(new RegExp(`(?:${words})\\s+\`([^\`]+)\``, "g")), ([, text = ""]) => text);
  }

  it("quotes only log messages, reasons and errors that the program prints", () => {
    const messages = quotes("log message");
    expect([messages.length > 10, messages.filter((message) => !isLiteral(message))]).toEqual([true, []]);
    const tables = ["| text of the error |", "| text after"].flatMap((head) => tableAfter(guide, head));
    const cells = codeSpans({ ...guide, prose: tables.map(([cell]) => cell).join("\n") });
    const texts = [...quotes("error message|reason|prints|says"), ...cells];
    expect([texts.length > 10, texts.filter((text) => !isPrinted(text) && text !== "ECONNREFUSED")]).toEqual([true, []]);
  });
});

describe("docs/MIGRATION.md", () => {
  const guide = readDocument("docs/MIGRATION.md");

  it.each(["supergateway", "mcp-proxy"])("replaces options of %s by command lines that the program accepts", (peer) => {
    const cells = tableAfter(guide, `| ${peer} | here |`).map(([, here = "", note = ""]) => `${here} ${note}`);
    const commandLines = codeSpans({ ...guide, prose: cells.join("\n") }).filter((span) => span.startsWith("--") && span !== "--");
    expect(commandLines.length).toBeGreaterThan(5);
    for (const commandLine of commandLines) {
      // A shell expands these characters unless they are quoted.
      expect(commandLine.replaceAll(/'[^']*'/g, "")).not.toMatch(/[*?$"]/);
      const words = commandLine.replaceAll("'", "").replace("DIR", "/tmp").split(" ");
      const { problems, unknownVariables } = loadConfig(readCommandLine([...words, "--", "server"]), {});
      expect({ commandLine, problems, unknownVariables }).toEqual({ commandLine, problems: [], unknownVariables: [] });
    }
  });
});
