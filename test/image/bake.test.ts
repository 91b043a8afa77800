import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { Container, docker, IMAGE } from "../support/container.ts";

const BAKED = "claw-mcp-stdio-baked:test";
const CONTEXT = fileURLToPath(new URL("../../examples/bake", import.meta.url));

it("an image with a baked-in server starts offline, without root's files in /tmp", async () => {
  await docker("build", "--quiet", "--network", "host", "--build-arg", `SIDECAR=${IMAGE}`, "--tag", BAKED, CONTEXT);
  await using container = await Container.start({ image: BAKED, network: "none", flags: ["--health-interval", "1s"] });
  expect(await container.waitForHealth("healthy")).toBe("ready");
  const [{ Config }] = JSON.parse(await docker("image", "inspect", BAKED)) as [{ readonly Config: { readonly User: string } }];
  expect(Config.User).toBe("1000:1000");
  expect(await filesInTmp(BAKED)).toBe(await filesInTmp(IMAGE));
});

function filesInTmp(image: string): Promise<string> {
  return docker("run", "--rm", "--network", "none", "--entrypoint", "find", image, "/tmp", "-maxdepth", "1", "-printf", "%u %p\n");
}
