import { dirname, join } from "node:path";
import { build, type BuildOptions, type BuildResult, type Metafile, type Plugin } from "esbuild";

const ROOT = dirname(import.meta.dirname);

/** The program, and the thread that it starts by the name of its file. Each other file of the bundle is imported by one of these. */
const ENTRY_POINTS = ["src/main.ts", "src/policy/check-worker.ts"];

/**
 * Node loads 92 further modules for an ESM import of `node:http`, WebSocket among them, because it reads all exports (docs/decisions/0016-image.md).
 * This way, it loads none of them.
 */
const withoutWebSocket: Plugin = {
  name: "node:http",
  setup(each) {
    each.onResolve({ filter: /^node:http$/ }, ({ path, kind }) =>
      kind === "import-statement" ? { path, namespace: "built-in" } : { path, external: true },
    );
    each.onLoad({ filter: /.*/, namespace: "built-in" }, ({ path }) => ({
      contents: `module.exports = process.getBuiltinModule(${JSON.stringify(path)});`,
    }));
  },
};

/** Express contains a parser of bodies, which the sidecar does not use, and this parser tables of all character sets: half of a megabyte. */
const withoutCharacterSets: Plugin = {
  name: "iconv-lite",
  setup(each) {
    each.onResolve({ filter: /^iconv-lite$/ }, ({ path }) => ({ path, namespace: "unused" }));
    each.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "module.exports = {};" }));
  },
};

/** Express logs by `debug` if DEBUG is set, which operators set for the MCP server. Its lines have the URLs of clients, and no secret is masked in them. */
const withoutDebug: Plugin = {
  name: "debug",
  setup(each) {
    each.onResolve({ filter: /^debug$/ }, ({ path }) => ({ path, namespace: "silent" }));
    each.onLoad({ filter: /.*/, namespace: "silent" }, () => ({ contents: "module.exports = () => () => undefined;" }));
  },
};

/**
 * Bundles the program and its packages for the oldest Node in `engines`. Names and lines stay readable: minifying makes no start faster.
 *
 * @param outdir the folder of the files; undefined to write none.
 */
export async function bundle(outdir: string | undefined): Promise<BuildResult<BuildOptions & { metafile: true }>> {
  return build({
    absWorkingDir: ROOT,
    entryPoints: ENTRY_POINTS,
    outdir: outdir ?? "dist",
    write: outdir !== undefined,
    entryNames: "[name]",
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node22.19",
    // Packages in CommonJS require Node's modules.
    banner: { js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);' },
    // The maps have positions only: the chunks are readable, and each part of them names its source.
    sourcemap: true,
    sourcesContent: false,
    metafile: true,
    logLevel: "warning",
    plugins: [withoutWebSocket, withoutCharacterSets, withoutDebug],
  });
}

/** Returns the folders of the packages in the bundle, relative to the root. Code that is not used is in no output. */
export function bundledPackages({ outputs }: Metafile): string[] {
  const inputs = Object.values(outputs).flatMap((output) => Object.entries(output.inputs));
  const used = inputs.filter(([, { bytesInOutput }]) => bytesInOutput > 0).map(([path]) => path);
  const folders = used.map((path) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]);
  return [...new Set(folders.filter((folder) => folder !== undefined))].toSorted();
}

export function inRoot(path: string): string {
  return join(ROOT, path);
}
