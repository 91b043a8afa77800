// A rule of the linter for the imports of src/: which part may import which, and which file a package.

import { dirname, join, relative, sep } from "node:path";

/** The folders and files of `src/`, from the bottom to the top. Each may import itself and those before it. */
export const PARTS = [
  "routes.ts",
  "json",
  "mcp",
  "observe",
  "timers.ts",
  "memory.ts",
  "config",
  "context.ts",
  "process",
  "session",
  "server",
  "policy",
  "http",
  "server.ts",
  "sidecar.ts",
  "cli",
  "main.ts",
];

/** The page runs in a browser: it shares only these with the sidecar. Packages are its own affair. */
export const PAGE_IMPORTS = ["page", "json", "http/page-update.ts"];

/** The only files that may import a package. */
const PACKAGES: Readonly<Record<string, string>> = {
  accepts: "http/response.ts",
  ajv: "policy/checker.ts",
  "content-type": "http/response.ts",
  cors: "http/guards.ts",
  "eventsource-parser": "cli/listing.ts",
  execa: "process/child.ts",
  express: "http/app.ts",
  "p-retry": "process/supervisor.ts",
  pino: "observe/logger.ts",
  "pino-pretty": "observe/logger.ts",
  "prom-client": "http/metrics.ts",
};

const SRC = join(import.meta.dirname, "..", "src");

/** Returns what is wrong with an import. @param file the path of the importing file, relative to `src/`. @param specifier as the file has it */
function importProblem(file: string, specifier: string): string | undefined {
  const part = partOf(file);
  const isPage = part === "page";
  if (!specifier.startsWith(".")) {
    if (specifier.startsWith("node:")) return isPage ? "the page runs in a browser, which has no modules of Node" : undefined;
    const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
    const only = PACKAGES[name] ?? "a file that PACKAGES names";
    return isPage || only === file ? undefined : `only ${only} may import ${name}`;
  }
  const path = join(dirname(file), specifier);
  const imported = partOf(path);
  if (isPage) return PAGE_IMPORTS.some((each) => isIn(path, each)) ? undefined : `the page may import only ${PAGE_IMPORTS.join(", ")}`;
  const unknown = [part, imported].find((each) => !PARTS.includes(each));
  if (unknown !== undefined) return `${unknown} is not in PARTS`;
  return PARTS.indexOf(part) >= PARTS.indexOf(imported) ? undefined : `${part} may not import ${imported}, which is above it in PARTS`;
}

function partOf(path: string): string {
  return path.split(sep)[0] ?? path;
}

function isIn(path: string, part: string): boolean {
  return path === part || path.startsWith(`${part}/`);
}

interface ImportNode {
  readonly source: { readonly type?: string; readonly value?: unknown } | null;
}

interface RuleContext {
  readonly filename: string;
  report(problem: { readonly node: unknown; readonly message: string }): void;
}

const direction = {
  create(context: RuleContext) {
    const check = (node: ImportNode): void => {
      if (typeof node.source?.value !== "string") return;
      const message = importProblem(relative(SRC, context.filename), node.source.value);
      if (message !== undefined) context.report({ node, message: `${message} (build/imports-rule.ts)` });
    };
    return { ImportDeclaration: check, ImportExpression: check, ExportNamedDeclaration: check, ExportAllDeclaration: check };
  },
};

export default { meta: { name: "imports" }, rules: { direction } };
