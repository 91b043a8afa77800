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
  "eventsource-parser": "cli/discover-url.ts",
  execa: "process/child.ts",
  express: "http/app.ts",
  "p-retry": "process/supervisor.ts",
  pino: "observe/logger.ts",
  "pino-pretty": "observe/prettifier.ts",
  "prom-client": "http/exposition.ts",
};

const SRC = join(import.meta.dirname, "..", "src");

/** Returns what is wrong with an import. @param file the path of the importing file, relative to `src/`. @param specifier as the file has it */
export function importProblem(file: string, specifier: string): string | undefined {
  const part = partOf(file);
  if (!specifier.startsWith(".")) {
    const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier;
    const isOfNode = specifier.startsWith("node:");
    if (part === "page" ? !isOfNode : isOfNode || PACKAGES[name] === file) return undefined;
    return `only ${PACKAGES[name] ?? "a file that build/imports-rule.ts names"} may import ${name}`;
  }
  const imported = join(dirname(file), specifier);
  if (part === "page") return PAGE_IMPORTS.some((each) => isIn(imported, each)) ? undefined : `page may not import ${imported}`;
  const isBelow = PARTS.indexOf(part) >= PARTS.indexOf(partOf(imported)) && PARTS.includes(partOf(imported));
  return isBelow ? undefined : `${part} may not import ${partOf(imported)}, which is above it (build/imports-rule.ts)`;
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
      if (message !== undefined) context.report({ node, message });
    };
    return { ImportDeclaration: check, ImportExpression: check, ExportNamedDeclaration: check, ExportAllDeclaration: check };
  },
};

export default { meta: { name: "imports" }, rules: { direction } };
