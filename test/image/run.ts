import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { BASE_IMAGE_ARGS, IMAGE } from "../support/container.ts";

/** Builds the image as it is released, and tests it: `npm run test:image`. */
if (process.env["SKIP_IMAGE"] === "1") {
  console.log("The image is NOT tested: SKIP_IMAGE=1.");
  process.exit(0);
}

const engine = spawnSync("docker", ["version", "--format", "{{.Server.Version}}"], { encoding: "utf8" });
if (engine.status !== 0) {
  const reason = engine.error?.message ?? engine.stderr.trim();
  console.error(`No container engine answers, so the image cannot be tested (docker version: ${reason}).`);
  console.error("Start one, or leave the image out: SKIP_IMAGE=1 npm run test:image");
  process.exit(1);
}

const { version } = JSON.parse(readFileSync("package.json", "utf8")) as { version: string };
run("docker", ["build", "--network", "host", ...BASE_IMAGE_ARGS, "--build-arg", `VERSION=${version}`, "--tag", IMAGE, "."]);
run("vitest", ["run", "--config", "vitest.image.config.ts", ...process.argv.slice(2)]);

function run(command: string, args: readonly string[]): void {
  const { status } = spawnSync(command, args, { stdio: "inherit", env: { ...process.env, DOCKER_BUILDKIT: "1" } });
  if (status !== 0) process.exit(status ?? 1);
}
