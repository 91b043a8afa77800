import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { hasNoChildren, packageCommand } from "../../../src/cli/start/download.ts";

describe("a command that downloads its package", () => {
  it.each([
    ["npx", ["-y", "some-mcp@1.2.3", "--flag", "x"], "some-mcp@1.2.3"],
    ["/usr/bin/npx", ["--yes", "@scope/some-mcp"], "@scope/some-mcp"],
    ["npx", ["-y", "-p", "some-package", "some-mcp"], "some-package"],
    ["npx", ["--package=some-package", "some-mcp"], "some-package"],
    ["npx", ["--registry", "https://registry.example", "some-mcp"], "some-mcp"],
    ["uvx", ["--python", "3.12", "some-mcp"], "some-mcp"],
    ["uvx", ["--from", "git+https://example.com/x", "some-mcp"], "git+https://example.com/x"],
    ["npx", ["-y"], undefined],
    ["node", ["server.js"], undefined],
    ["constructor", ["x"], undefined],
  ])("the package of %s %j is %s", (command, args, packageName) => {
    expect(packageCommand(command, args)?.packageName).toBe(packageName);
  });

  it("a process with a child has begun to run its package", async () => {
    const parent = spawn("sh", ["-c", "sleep 60 & echo; wait"], { stdio: ["ignore", "pipe", "ignore"], detached: true });
    const pid = parent.pid ?? 0;
    await once(parent.stdout, "data");
    expect(hasNoChildren(pid)).toBe(false);
    process.kill(-pid, "SIGKILL");
    await once(parent, "exit");
    expect(hasNoChildren(pid)).toBe(false);
    const alone = spawn("sleep", ["60"], { stdio: "ignore" });
    await once(alone, "spawn");
    expect(hasNoChildren(alone.pid ?? 0)).toBe(true);
    alone.kill("SIGKILL");
  });
});
