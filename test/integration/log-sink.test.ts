import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, expect, it } from "vitest";
import { waitForHanging } from "../support/in-flight.ts";
import { McpClient } from "../support/mcp-client.ts";
import { groupEnd } from "../support/process-end.ts";
import { readReadiness } from "../support/readiness.ts";
import { FIXTURE, isGroupAlive, MAIN, Sidecar } from "../support/sidecar.ts";
import { TerminalRun } from "../support/terminal.ts";

/** More than the sidecar keeps for a reader that has stopped, and the pipe holds. */
const FLOOD = { count: 1300, length: 16_000 };
const COMMAND = [MAIN, "--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE];

describe("a log sink", () => {
  it("that stops reading stops nothing: calls are answered while the server floods its stderr", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    sidecar.process.stdout?.pause();
    expect(await client.toolText("stderr", FLOOD)).toBe("written");
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
    expect(await (await sidecar.client()).request("ping")).toMatchObject({ status: 200 });

    sidecar.process.stdout?.resume();
    const dropped = await sidecar.waitForLog("log lines dropped: stdout was not read");
    expect(dropped).toMatchObject({ level: "warn", count: expect.any(Number) as number });
    await client.toolText("stderr", { text: "logged again" });
    await sidecar.waitForLog("logged again");
    const shown = sidecar.logLines.filter(({ msg }) => msg === "e".repeat(FLOOD.length)).length;
    const counted = sidecar.logLines
      .filter(({ msg }) => msg === "log lines dropped: stdout was not read")
      .reduce((sum, line) => sum + Number(line["count"]), 0);
    expect(counted).toBeGreaterThan(0);
    expect(shown + counted).toBe(FLOOD.count);
  });

  it("that stops reading does not keep the sidecar from exiting, with nothing left behind", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    sidecar.process.stdout?.pause();
    const { childPid } = sidecar;
    await client.toolText("stderr", FLOOD);
    sidecar.process.kill("SIGTERM");
    await sidecar.exited;
    await groupEnd(childPid);
    expect(isGroupAlive(childPid)).toBe(false);
  });

  it("that stops reading does not keep a second signal from ending it at once", async () => {
    await using sidecar = await Sidecar.start({ mode: "stubborn", flags: ["--drain-timeout-ms", "600000"] });
    const client = await sidecar.client();
    sidecar.process.stdout?.pause();
    const { childPid } = sidecar;
    await client.toolText("stderr", FLOOD);
    const hanging = client.callTool("hang").catch((error: unknown) => error);
    await waitForHanging(client, 1);
    sidecar.process.kill("SIGTERM");
    // Shows that the first signal has arrived; a second one before that would be lost in the first.
    while ((await readReadiness(sidecar)).httpStatus !== 503);
    sidecar.process.kill("SIGTERM");
    await sidecar.exited;
    await groupEnd(childPid);
    await hanging;
    expect(isGroupAlive(childPid)).toBe(false);
  });

  it("that goes away stops nothing", async () => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    sidecar.process.stdout?.destroy();
    expect(await client.toolText("stderr", { text: "to nobody", count: 100 })).toBe("written");
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
    expect(await sidecar.stop()).toBe(0);
  });

  it("that cannot be written to does not keep the sidecar from exiting", async () => {
    const full = openSync("/dev/full", "w");
    const sidecar = spawn(process.execPath, [MAIN, "--addr", "127.0.0.1:0", "--", "/no/such/command"], {
      stdio: ["ignore", full, "inherit"],
    });
    closeSync(full);
    const killer = setTimeout(() => sidecar.kill("SIGKILL"), 20_000);
    expect(await once(sidecar, "exit")).toEqual([127, null]);
    clearTimeout(killer);
  });

  it("that is a terminal and stops reading stops nothing", async () => {
    await using terminal = new TerminalRun(["--", process.execPath, FIXTURE], { NO_COLOR: "1" });
    const client = await new McpClient(await terminal.url()).open();
    terminal.stopReading();
    expect(await client.toolText("stderr", FLOOD)).toBe("written");
    expect(await client.toolText("echo", { text: "still here" })).toBe("still here");
  });

  it("that is a terminal gets lines for people, and Ctrl-C ends the sidecar", async () => {
    // `script` runs its command on a terminal of its own, and passes on what is typed. `exec`: a shell that stays would get the
    // Ctrl-C as well, and some report that instead of the sidecar's exit code.
    const words = [process.execPath, ...COMMAND].map((word) => `'${word}'`);
    const terminal = spawn("script", ["-qec", `exec ${words.join(" ")}`, "/dev/null"], {
      env: { ...process.env, SHELL: "/bin/sh" },
      stdio: ["pipe", "pipe", "inherit"],
    });
    const lines: string[] = [];
    for await (const shown of createInterface({ input: terminal.stdout })) {
      lines.push(shown);
      if (shown.includes("try it")) terminal.stdin.write("\u0003");
    }
    if (terminal.exitCode === null) await once(terminal, "exit");
    expect(terminal.exitCode).toBe(0);
    // oxlint-disable-next-line no-control-regex -- colours
    const plain = lines.map((text) => text.replaceAll(/\u001B\[\d+m/g, ""));
    for (const end of ['stopping {"signal":"SIGINT"}', 'mcp server ended {"kind":"stopped",']) {
      const line = new RegExp(String.raw`^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: ${end.replace("{", String.raw`\{`)}`);
      expect(plain).toContainEqual(expect.stringMatching(line));
    }
    expect(plain.filter((text) => text.startsWith("{"))).toEqual([]);
  });
});
