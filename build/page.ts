import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { build, type Metafile, type OutputFile, type Plugin } from "esbuild";
import { inRoot } from "./bundle.ts";

/** All files together, as they are sent. */
const MAX_BYTES = 120 * 1024;
const GZIP_LEVEL = 9;

/** Modules that the page never uses, and the source that replaces each. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  // The page signs nothing.
  [/^jose$/, "export {};"],
  // It generates code, which the content security policy forbids.
  [/^@modelcontextprotocol\/client\/_shims$/, "export const CORS_IS_POSSIBLE = true; export class DefaultJsonSchemaValidator {}"],
];

const withoutUnused: Plugin = {
  name: "unused",
  setup(each) {
    for (const [filter, contents] of REPLACED) {
      const namespace = `replaced${filter.source}`;
      each.onResolve({ filter }, ({ path }) => ({ path, namespace }));
      each.onLoad({ filter: /.*/, namespace }, () => ({ contents }));
    }
  },
};

/**
 * Bundles the page for browsers. The sidecar only ever sends its files compressed, so there are no others.
 *
 * @param outdir the folder of the files.
 * @throws Error if they are too large.
 */
export async function bundlePage(outdir: string): Promise<Metafile> {
  const { metafile, outputFiles } = await build({
    absWorkingDir: inRoot("."),
    entryPoints: { app: "src/page/app.tsx", style: "src/page/page.css" },
    outdir: "page",
    write: false,
    entryNames: "[name]-[hash]",
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2024",
    minify: true,
    legalComments: "none",
    // The packages report what the page shows anyway.
    drop: ["console"],
    jsx: "automatic",
    jsxImportSource: "preact",
    // The content security policy forbids generated code. Otherwise zod would try it once when it is loaded, and browsers would report that.
    banner: { js: "globalThis.__zod_globalConfig={jitless:true};" },
    define: { "process.env.NODE_ENV": '"production"' },
    metafile: true,
    logLevel: "warning",
    plugins: [withoutUnused],
  });
  const files = new Map(outputFiles.map(({ path, contents }) => [basename(path), contents]));
  files.set("index.html", new TextEncoder().encode(indexHtml(outputFiles)));
  mkdirSync(outdir, { recursive: true });
  let bytes = 0;
  for (const [name, contents] of files) {
    const compressed = gzipSync(contents, { level: GZIP_LEVEL });
    bytes += compressed.length;
    writeFileSync(join(outdir, `${name}.gz`), compressed);
  }
  if (bytes > MAX_BYTES) throw new Error(`the page has ${bytes} bytes, more than ${MAX_BYTES}`);
  return metafile;
}

function indexHtml(outputFiles: readonly OutputFile[]): string {
  const address = (pattern: RegExp): string => {
    const found = outputFiles.map(({ path }) => basename(path)).find((name) => pattern.test(name));
    if (found === undefined) throw new Error(`no file of the page matches ${pattern.source}`);
    // Relative, because a proxy may remove a prefix of the path.
    return `page/${found}`;
  };
  const html = readFileSync(inRoot("src/page/index.html"), "utf8");
  return html.replace("APP_STYLE", address(/^style-.*\.css$/)).replace("APP_SCRIPT", address(/^app-.*\.js$/));
}
