import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { Container, docker, IMAGE } from "../support/container.ts";

const FOLDER = fileURLToPath(new URL("../../examples", import.meta.url));
/** The volume of the compose file for the descriptor, and the one of the test. */
const SHARED_VOLUME = /^discovered:/;

interface ComposeService {
  readonly image: string;
  readonly entrypoint?: readonly string[];
  readonly command: readonly string[];
  readonly volumes?: readonly string[];
  readonly tmpfs?: readonly string[];
  readonly user?: string;
}

// The engine may have no network but that of the host, so the services are run one by one, with the address of the sidecar in place of its name.
it("the services of the compose file of managed tools lead from a sidecar to the answer of a model", async () => {
  const { services } = parse(readFileSync(`${FOLDER}/managed-tools/compose.yaml`, "utf8")) as { services: Record<string, ComposeService> };
  const { echo, discover, ask } = services;
  if (echo === undefined || discover === undefined || ask === undefined) throw new Error("a service is missing");
  const volume = `claw-discovered-${randomUUID()}`;
  try {
    await using sidecar = await Container.startReady({ args: echo.command });
    await docker(...runArguments(discover, volume, sidecar.origin));
    const output = await docker(...runArguments(ask, volume, sidecar.origin));
    expect(output).toMatch(/^round 1 {3}echo\.add \{"a":2,"b":3\} -> \{"ok":true,"data":"5"\}/m);
    expect(output).toMatch(/^model {5}2 \+ 3 = 5$/m);
  } finally {
    await docker("volume", "rm", "--force", volume);
  }
});

/** Returns the arguments of docker that run a service as Compose does. */
function runArguments(
  { entrypoint = [], command, volumes = [], tmpfs = [], user }: ComposeService,
  volume: string,
  origin: string,
): string[] {
  const [program = "", ...first] = entrypoint;
  const mounts = volumes.map((each) => each.replace(/^\.\.:/, `${FOLDER}:`).replace(SHARED_VOLUME, `${volume}:`));
  return [
    "run",
    "--rm",
    "--network",
    "host",
    "--entrypoint",
    program,
    ...mounts.flatMap((each) => ["--volume", each]),
    ...tmpfs.flatMap((each) => ["--tmpfs", each]),
    ...(user === undefined ? [] : ["--user", user]),
    IMAGE,
    ...first.concat(command).map((each) => each.replace("http://echo:8080", origin)),
  ];
}
