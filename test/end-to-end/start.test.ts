import { spawn } from "node:child_process";
import { chmod, writeFile } from "node:fs/promises";
import { describe, expect } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { TempDir } from "../support/temp-dir.ts";
import { freePort } from "../support/open-sockets.ts";
import { McpClient } from "../support/mcp-client.ts";
import { EXAMPLE, FIXTURE, MAIN, runMain, Sidecar } from "../support/sidecar.ts";
import { TerminalRun } from "../support/terminal.ts";
import { proves } from "./proves.ts";

const ARGS = ["normal", "$HOME", "; exit 3", "*", `"it's"`];

/** Starts a sidecar as a pod does: by variables alone. */
async function startByVariables(port: number): Promise<Sidecar> {
  const env = {
    PATH: process.env["PATH"],
    SOME_API_KEY: "of-the-server",
    CLAW_MCP_STDIO_COMMAND: process.execPath,
    CLAW_MCP_STDIO_ARGS: JSON.stringify([FIXTURE, ...ARGS]),
    CLAW_MCP_STDIO_PORT: String(port),
  };
  const sidecar = new Sidecar(spawn(process.execPath, [MAIN], { env, stdio: ["ignore", "pipe", "pipe"] }));
  await sidecar.waitForLog("mcp server ready");
  return sidecar;
}

describe("a sidecar that variables configure", async () => {
  const port = await freePort();
  const sidecar = disposeAfterAll(await startByVariables(port));
  const client = await new McpClient(`http://127.0.0.1:${port}/mcp`).open();

  proves("the sidecar listens on loopback", async () => {
    expect(await sidecar.waitForLog("listening")).toMatchObject({ address: `127.0.0.1:${port}` });
    expect((await runMain(["--check-config", "--", "true"])).stdout).toMatch(/127\.0\.0\.1[^]*8080/);
  });

  proves("variables of the sidecar do not reach the server", async () => {
    const variables = JSON.parse(await client.toolText("env")) as Readonly<Record<string, string>>;
    expect(variables["SOME_API_KEY"]).toBe("of-the-server");
    expect(Object.keys(variables).filter((name) => name.startsWith("CLAW_MCP_STDIO_"))).toEqual([]);
  });

  proves("no shell interprets the command", async () => {
    expect(JSON.parse(await client.toolText("where"))).toMatchObject({ argv: ARGS.slice(1) });
  });

  proves("a taken port ends the sidecar", async () => {
    const { code, stdout } = await runMain(["--port", String(port), "--", process.execPath, FIXTURE]);
    expect(code).toBe(1);
    expect(stdout).toContain('"msg":"the port is taken"');
  });
});

describe("a start that fails", () => {
  proves("a command that cannot be started ends the sidecar", async () => {
    await using directory = await TempDir.create();
    const forbidden = directory.file("forbidden");
    await writeFile(forbidden, "#!/bin/sh\n");
    await chmod(forbidden, 0o644);
    for (const [command, exitCode] of [
      ["/no/such/command", 127],
      [forbidden, 126],
    ] as const) {
      const { code, stdout } = await runMain(["--addr", "127.0.0.1:0", "--", command], { PATH: "/usr/bin:/bin" });
      const said: unknown = JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");
      expect([code, said]).toMatchObject([exitCode, { level: "error", msg: "the command cannot be started", line: command }]);
    }
  });

  proves("an invalid configuration lists every problem", async () => {
    const { code, stdout, stderr } = await runMain(["--port", "x", "--log-level", "loud", "--max-in-flight", "0", "--", "true"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    for (const problem of ['--port is "x"', '--log-level is "loud"', '--max-in-flight is "0"']) expect(stderr).toContain(problem);
  });

  proves("REQUIRE_AUTH needs a token", async () => {
    const { code, stdout, stderr } = await runMain(["--require-auth", "--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("CLAW_MCP_STDIO_AUTH_TOKEN");
  });

  proves("--check-config prints what is in effect", async () => {
    const variables = {
      CLAW_MCP_STDIO_MAX_IN_FLIGHT: "5",
      CLAW_MCP_STDIO_MAX_SESSIONS: "7",
      CLAW_MCP_STDIO_AUTH_TOKEN: "secret-0123456789",
    };
    const { code, stdout } = await runMain(["--check-config", "--max-in-flight", "6", "--", "true"], variables);
    expect(code).toBe(0);
    expect(stdout).toMatch(/MAX_IN_FLIGHT.*\b6\b.*--max-in-flight/i);
    expect(stdout).toMatch(/MAX_SESSIONS.*\b7\b/);
    expect(stdout).not.toContain("secret-0123456789");
  });
});

describe("the start on a terminal", () => {
  proves("a terminal shows a banner", async () => {
    await using terminal = TerminalRun.sidecar(["--", process.execPath, EXAMPLE], { NO_COLOR: "1" });
    const url = await terminal.url();
    await terminal.waitFor(/ Ctrl-C\r\n\r\n/);
    expect(terminal.lines).toEqual([
      "",
      expect.stringMatching(/^claw-mcp-stdio \S+ serves echo-server 1\.0\.0$/),
      `  page     ${new URL("/", url).href}`,
      `  address  ${url}`,
      `  command  ${process.execPath} ${EXAMPLE}`,
      "  tools    2: echo, add",
      `  try it   npx -y @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`,
      "  stop     Ctrl-C",
      "",
      "",
    ]);
    expect(await terminal.interrupt()).toBe(0);
  });

  proves("a server that fails on a terminal ends the sidecar", async () => {
    await using terminal = TerminalRun.sidecar(["--", process.execPath, FIXTURE, "exit-at-initialize"], { NO_COLOR: "1" });
    expect(await terminal.end()).toBe(3);
    expect(terminal.shown).toContain("cannot open the database");
    expect(terminal.shown).toContain("exited with code 3");
  });
});
