import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bundle, bundledPackages } from "../../build/bundle.ts";
import { ROOT } from "../support/markdown.ts";

// The image supports amd64 and arm64 without a build or a test on each.
it("no package in the bundle is limited to some systems, compiles itself, or contains machine code", async () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as {
    readonly packages: Record<string, Record<string, unknown>>;
  };
  const bundled = bundledPackages((await bundle(undefined)).metafile);
  expect(bundled.length).toBeGreaterThan(40);
  const bound = bundled.filter((path) => {
    const { cpu, os, libc, hasInstallScript } = packages[path] ?? {};
    return !(path in packages) || (cpu ?? os ?? libc ?? hasInstallScript) !== undefined;
  });
  expect(bound).toEqual([]);
  expect(
    globSync(
      bundled.map((path) => `${path}/**/{binding.gyp,*.{node,so,dll,dylib,exe}}`),
      { cwd: ROOT },
    ),
  ).toEqual([]);
});
