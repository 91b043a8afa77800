import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ROOT } from "../support/markdown.ts";

interface LockedPackage {
  readonly dev?: boolean;
  readonly cpu?: readonly string[];
  readonly os?: readonly string[];
  readonly libc?: readonly string[];
  readonly hasInstallScript?: boolean;
}

const lockfile = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as { readonly packages: Record<string, LockedPackage> };
const installed = Object.entries(lockfile.packages).filter(([path, { dev = false }]) => path !== "" && !dev);
const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8").replaceAll("\\\n", " ");
/** Each stage, from its FROM on. */
const stages = dockerfile.split(/^(?=FROM )/m).slice(1);

// The image supports amd64 and arm64 without a build or a test on each.
describe("the image", () => {
  it("no production dependency is limited to some systems or compiles itself", () => {
    expect(installed.length).toBeGreaterThan(50);
    const bound = installed.filter(
      ([, { cpu, os, libc, hasInstallScript = false }]) => (cpu ?? os ?? libc) !== undefined || hasInstallScript,
    );
    expect(bound.map(([path]) => path)).toEqual([]);
  });

  it("no production dependency contains machine code", () => {
    const patterns = installed.map(([path]) => `${path}/**/{binding.gyp,*.{node,so,dll,dylib,exe}}`);
    expect(globSync(patterns, { cwd: ROOT })).toEqual([]);
  });

  it("only stages with portable files are built on the builder's processor", () => {
    const builders = stages.filter((stage) => stage.startsWith("FROM --platform=$BUILDPLATFORM "));
    expect(builders.map((stage) => / AS (\S+)/.exec(stage)?.[1])).toEqual(["build", "dependencies"]);
    const copied = Array.from(dockerfile.matchAll(/--from=(?:build|dependencies) (\S+)/g), ([, path]) => path);
    expect(new Set(copied)).toEqual(new Set(["/build/dist", "/dependencies/node_modules"]));
  });

  it("no stage names a processor", () => {
    expect(stages.length).toBeGreaterThan(4);
    const instructions = dockerfile.replaceAll(/^#.*$/gm, "").replaceAll("--platform=$BUILDPLATFORM", "");
    expect(instructions).not.toMatch(/amd64|x86|x64|arm64|aarch64|--platform|TARGET(?:ARCH|PLATFORM)/);
  });
});
