import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { bundle, bundledPackages } from "../../build/bundle.ts";
import { ROOT } from "../support/markdown.ts";

interface LockedPackage {
  readonly cpu?: readonly string[];
  readonly os?: readonly string[];
  readonly libc?: readonly string[];
  readonly hasInstallScript?: boolean;
}

const lockfile = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as { readonly packages: Record<string, LockedPackage> };
const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8").replaceAll("\\\n", " ");
/** Each stage, from its FROM on. */
const stages = dockerfile.split(/^(?=FROM )/m).slice(1);

// The image supports amd64 and arm64 without a build or a test on each.
describe("the image", () => {
  /** The folders of the packages in the bundle. */
  let bundled: readonly string[];

  beforeAll(async () => {
    const { metafile } = await bundle(undefined);
    bundled = bundledPackages(metafile);
  });

  it("no package in the bundle is limited to some systems or compiles itself", () => {
    expect(bundled.length).toBeGreaterThan(40);
    const bound = bundled.filter((path) => {
      const { cpu, os, libc, hasInstallScript = false } = lockfile.packages[path] ?? {};
      return !(path in lockfile.packages) || (cpu ?? os ?? libc) !== undefined || hasInstallScript;
    });
    expect(bound).toEqual([]);
  });

  it("no package in the bundle contains machine code", () => {
    const patterns = bundled.map((path) => `${path}/**/{binding.gyp,*.{node,so,dll,dylib,exe}}`);
    expect(globSync(patterns, { cwd: ROOT })).toEqual([]);
  });

  it("only stages with portable files are built on the builder's processor", () => {
    const builders = stages.filter((stage) => stage.startsWith("FROM --platform=$BUILDPLATFORM "));
    expect(builders.map((stage) => / AS (\S+)/.exec(stage)?.[1])).toEqual(["build"]);
    const copied = Array.from(dockerfile.matchAll(/--from=build (\S+)/g), ([, path]) => path);
    expect(new Set(copied)).toEqual(new Set(["/build/dist"]));
  });

  it("no stage names a processor", () => {
    expect(stages.length).toBeGreaterThan(3);
    const instructions = dockerfile.replaceAll(/^#.*$/gm, "").replaceAll("--platform=$BUILDPLATFORM", "");
    expect(instructions).not.toMatch(/amd64|x86|x64|arm64|aarch64|--platform|TARGET(?:ARCH|PLATFORM)/);
  });
});
