import { describe, expect, it } from "vitest";
import { Gate } from "../support/gate.ts";
import { inspect } from "../support/inspector.ts";
import { EXAMPLE, FIXTURE, Sidecar } from "../support/sidecar.ts";
import { TerminalRun } from "../support/terminal.ts";

const ECHO = ["--", process.execPath, EXAMPLE];
/** Longer than the line that tells of the waiting takes to appear. */
const SLOW_ECHO = ["--", "sh", "-c", `sleep 1; exec '${process.execPath}' '${EXAMPLE}'`];
const ERASE_LINE = "\r\u001B[2K";
const BANNER_END = / Ctrl-C\r\n\r\n/;
// oxlint-disable-next-line no-control-regex -- colours
const COLOURED_BANNER = /\u001B\[2mstop +\u001B\[22mCtrl-C\r\n\r\n/;
// oxlint-disable-next-line no-control-regex -- colours
const COLOUR = /\u001B\[[\d;]*m/;

describe("the start, on a terminal", () => {
  it("ends with where the server is and a line that tries it, and Ctrl-C ends it all", async () => {
    await using terminal = new TerminalRun(["--log-level", "warn", ...ECHO], { NO_COLOR: "1" });
    await terminal.waitFor(BANNER_END);
    const lines = terminal.shown.split("\r\n");
    const url = /http:\S+/.exec(terminal.shown)?.[0] ?? "";
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/);
    const tryIt = `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`;
    expect(lines).toEqual([
      "",
      expect.stringMatching(/^claw-mcp-stdio \d+\.\d+\.\d+ serves echo-server 1\.0\.0$/),
      `  address  ${url}`,
      `  command  ${process.execPath} ${EXAMPLE}`,
      `  try it   ${tryIt}`,
      "  stop     Ctrl-C",
      "",
      "",
    ]);
    const { code, stdout } = await inspect(url, "--method", "tools/list");
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('"add"') as string });
    expect(await terminal.interrupt()).toBe(0);
  });

  it("shows, while it waits, for how long and what the server said last, on one line that is gone in the end", async () => {
    await using gate = await Gate.create();
    const script = `echo 'npm downloads' >&2; exec '${process.execPath}' '${FIXTURE}' gated`;
    await using terminal = new TerminalRun(["--", "sh", "-c", script], { ...gate.env, NO_COLOR: "1" });
    const [, seconds] = await terminal.waitFor(/waiting for sh, (\d+) s: npm downloads/);
    await terminal.waitFor(new RegExp(`waiting for sh, ${Number(seconds) + 1} s: npm downloads`));
    await gate.open();
    await terminal.waitFor(BANNER_END);
    const before = terminal.shown.split("waiting for").slice(0, -1);
    expect(before.filter((text) => !text.endsWith(ERASE_LINE))).toEqual([]);
    const lastWait = terminal.shown.lastIndexOf("waiting for");
    const after = terminal.shown.slice(lastWait).replace(/^waiting for sh, \d+ s: npm downloads/, "");
    expect(after.slice(0, ERASE_LINE.length + 2)).toBe(`${ERASE_LINE}\r[`);
    expect(await terminal.interrupt()).toBe(0);
    expect(terminal.shown.lastIndexOf("waiting for")).toBe(lastWait);
  });

  it("Ctrl-C while it waits ends it, with nothing of that line left and no banner", async () => {
    await using gate = await Gate.create();
    await using terminal = new TerminalRun(["--", "sh", "-c", `exec '${process.execPath}' '${FIXTURE}' gated`], gate.env);
    await terminal.waitFor(/waiting for sh, \d+ s/);
    expect(await terminal.interrupt()).toBe(0);
    expect(terminal.shown).toContain("mcp server ended");
    expect(terminal.shown).not.toContain("try it");
    expect(terminal.shown.slice(terminal.shown.lastIndexOf("waiting for"))).toContain(ERASE_LINE);
  });

  it("is coloured, unless NO_COLOR is set", async () => {
    await using coloured = new TerminalRun(ECHO, {});
    await coloured.waitFor(COLOURED_BANNER);
    expect(await coloured.interrupt()).toBe(0);
    await using plain = new TerminalRun(ECHO, { NO_COLOR: "1" });
    await plain.waitFor(BANNER_END);
    expect(await plain.interrupt()).toBe(0);
    expect(plain.shown).not.toMatch(COLOUR);
  });

  it("writes no escape at all where the terminal is dumb, also while it waits", async () => {
    await using terminal = new TerminalRun(SLOW_ECHO, { TERM: "dumb" });
    await terminal.waitFor(BANNER_END);
    expect(await terminal.interrupt()).toBe(0);
    expect(terminal.shown).not.toContain("\u001B");
    expect(terminal.shown).not.toContain("waiting for");
  });

  it("shows nothing of a server's own words that a terminal would obey, and no secret", async () => {
    const serverInfo = { name: "a\u001B[2Jb planted-secret" };
    const answer = JSON.stringify({ jsonrpc: "2.0", id: 0, result: { protocolVersion: "2025-06-18", capabilities: {}, serverInfo } });
    const script = 'read -r line; printf "%s\\n" "$ANSWER"; cat > /dev/null';
    const env = { NO_COLOR: "1", ANSWER: answer, PLANTED_TOKEN: "planted-secret" };
    await using terminal = new TerminalRun(["--", "sh", "-c", script], env);
    await terminal.waitFor(BANNER_END);
    expect(terminal.shown).toMatch(/serves ab \*\*\*\r\n/);
    expect(terminal.shown).not.toContain("\u001B[2J");
    expect(terminal.shown).not.toContain("planted-secret");
    expect(await terminal.interrupt()).toBe(0);
  });
});

describe("the start, where stdout is no terminal", () => {
  it("is told in log lines only", async () => {
    await using sidecar = await Sidecar.start({ command: SLOW_ECHO.slice(1) });
    expect(await sidecar.stop()).toBe(0);
    // Each line of stdout was parsed as JSON.
    const messages = sidecar.logLines.map(({ msg }) => msg);
    expect(messages.slice(0, 4).toSorted()).toEqual([
      "listening",
      "mcp server ready",
      "mcp server started",
      "no auth token is set: every client that reaches the address may call",
    ]);
    expect(sidecar.stderr).toBe("");
  });
});
