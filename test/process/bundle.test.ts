import { readdirSync, readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bundledPackages } from "../../build/bundle.ts";
import { bundlePage } from "../../build/page.ts";
import { bundleFiles, codeOf, DIST } from "../support/bundle.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const THIRD_PARTY = join(DIST, "third-party");
const MIN_LICENSE_LENGTH = 500;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license: string;
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}

it("each package in the bundle is listed with its version and its licence text", async () => {
  // A comment names the file of each part.
  const comment = /^\s*\/\/ (.*node_modules\/(?:@[^/]+\/)?[^/]+)\/\S+$/gm;
  const folders = new Set(bundleFiles().flatMap((file) => Array.from(codeOf(file).matchAll(comment), ([, folder = ""]) => folder)));
  expect(folders.size).toBeGreaterThan(40);
  const inside = Array.from(folders, (folder) => readManifest(folder)).map(({ name, version, license }) => ({ name, version, license }));
  await using scratch = await TempDir.create();
  const ofPage = bundledPackages(await bundlePage(scratch.path)).map((folder) => readManifest(folder));
  const names = new Set([...inside, ...ofPage].map(({ name, version }) => `${name.replace("/", "+")}@${version}`));
  const listed = readdirSync(THIRD_PARTY);
  expect(new Set(listed)).toEqual(names);
  expect(listed.map((name) => readManifest(join(THIRD_PARTY, name)))).toEqual(expect.arrayContaining(inside));
  for (const name of listed) {
    const texts = readdirSync(join(THIRD_PARTY, name)).filter((file) => file !== "package.json");
    expect(texts.map((file) => readFileSync(join(THIRD_PARTY, name, file), "utf8")).join("").length).toBeGreaterThan(MIN_LICENSE_LENGTH);
  }
});

it("the bundle imports only its own files and Node's modules", () => {
  const imported = bundleFiles().flatMap((file) => {
    return Array.from(codeOf(file).matchAll(/(?:\bfrom |^import |\bimport\(|__require\()"([\w@./:-]+)"/gm), ([, name = ""]) => name);
  });
  expect(imported).toContain("node:crypto");
  const foreign = imported.filter((name) => !name.startsWith("./") && !builtinModules.includes(name.replace(/^node:/, "")));
  expect(foreign).toEqual([]);
});

it("the stack of a defect names the source with --enable-source-maps", async () => {
  const imports = [new URL("../support/defect.js", import.meta.url).href];
  await using sidecar = await Sidecar.start({ imports, env: { NODE_OPTIONS: "--enable-source-maps" } });
  const client = await sidecar.client();
  await client.callTool("echo", { text: "in-request" });
  const { err } = await sidecar.waitForLog("defect of the sidecar");
  expect(err).toMatchObject({ stack: expect.stringMatching(/\/src\/[a-z/-]+\.ts:\d+:\d+/) as string });
});

it("DEBUG, which is meant for the server, does not make a package of the sidecar print URLs", async () => {
  await using sidecar = await Sidecar.start({ env: { DEBUG: "*" } });
  expect((await fetch(`${sidecar.origin}/unknown?access_token=planted`)).status).toBe(404);
  expect(sidecar.stderr).toBe("");
});

// A WebSocket client would be loaded with it: a tenth of a start, and 5 MB.
it("the sidecar serves without Node's WebSocket client in memory", async () => {
  const tell =
    'process.on("SIGWINCH", () => console.error(process.moduleLoadList.filter((name) => name.includes("undici")).join() || "none"));';
  await using sidecar = await Sidecar.start({ imports: [`data:text/javascript,${encodeURIComponent(tell)}`] });
  await (await sidecar.client()).callTool("echo", { text: "a" });
  sidecar.process.kill("SIGWINCH");
  await expect.poll(() => sidecar.stderr).toBe("none\n");
});
