import { once } from "node:events";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { FIXTURE, type LogLine, runMain } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

interface Failure {
  readonly code: number | null;
  readonly stderr: string;
  readonly lines: readonly LogLine[];
}

async function startAndFail(...args: readonly string[]): Promise<Failure> {
  // An inherited PATH may name a folder without search permission. A missing command would then count as forbidden (execvp(3)).
  const { code, stdout, stderr } = await runMain(args, { PATH: "/usr/bin:/bin" });
  return {
    code,
    stderr,
    lines: stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as LogLine),
  };
}

function startCommand(command: string, ...args: readonly string[]): Promise<Failure> {
  return startAndFail("--addr", "127.0.0.1:0", "--", command, ...args);
}

function summary({ code, stderr, lines }: Failure): object {
  const said = lines.filter(({ level }) => level === "error");
  return { code, stderr, said };
}

const MISSING = "does not exist, or its interpreter does not; install it or";
const NOT_EXECUTABLE =
  "may not be executed, or a folder of PATH may not be searched; make the file executable, or start it by its interpreter";
const ANOTHER_ADDRESS = "give another with --host, --port or --addr";

describe("the start of a server that cannot run", () => {
  it.each([
    ["/no/such/command", 127, "ENOENT", `${MISSING} correct its path`],
    ["no-such-command-in-the-path", 127, "ENOENT", `${MISSING} give its full path`],
    ["./no-such-command", 127, "ENOENT", `${MISSING} correct its path`],
    // A folder.
    ["/usr", 126, "EACCES", NOT_EXECUTABLE],
  ])("with the command %s, the sidecar exits with %i, and says why and what to do", async (command, exitCode, code, reason) => {
    expect(summary(await startCommand(command, "arg"))).toEqual({
      code: exitCode,
      stderr: "",
      said: [expect.objectContaining({ msg: "the command cannot be started", code, reason: `"${command}" ${reason}`, line: command })],
    });
  });

  it("the sidecar suggests its own command if one that is misspelled does not exist", async () => {
    const { code, lines } = await startAndFail("discvoer", "--addr", "127.0.0.1:0");
    const reason = expect.stringContaining("; did you mean claw-mcp-stdio discover?") as string;
    expect([code, lines.at(-1)]).toMatchObject([127, { reason }]);
  });

  it("KEEP_TRYING off ends the sidecar with the server's exit code", async () => {
    const command = [process.execPath, FIXTURE, "exit-at-initialize"];
    const { code, lines } = await startAndFail("--keep-trying", "off", "--addr", "127.0.0.1:0", "--", ...command);
    expect(code).toBe(3);
    expect(lines.map(({ msg }) => msg)).not.toContain("mcp server will be restarted");
    expect(lines.at(-1)).toMatchObject({ level: "error", msg: "mcp server not restarted: it was never ready" });
  });

  it("the sidecar exits with 126 if a part of the command's path is a file", async () => {
    const command = `${FIXTURE}/server`;
    expect(summary(await startCommand(command))).toMatchObject({ code: 126, said: [{ code: "ENOTDIR", line: command }] });
  });

  it("the sidecar exits with 1 if a port is taken, and starts no server", async () => {
    await using dir = await TempDir.create();
    await using occupant = createServer().listen(0, "127.0.0.1");
    await once(occupant, "listening");
    const taken = `127.0.0.1:${(occupant.address() as AddressInfo).port}`;
    const server = ["--", "touch", dir.file("started")];
    const { code, stderr, lines } = await startAndFail("--addr", taken, ...server);
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    const advice = `end the program that listens on port ${taken.split(":")[1]}, or choose another with`;
    const said = lines.find((line) => line.msg === "the port is taken");
    const reason = `listen EADDRINUSE: address already in use ${taken}; ${advice} --port or --addr`;
    expect(said).toMatchObject({ level: "error", code: "EADDRINUSE", reason });
    expect(said).not.toHaveProperty("err");
    const ofOperators = await startAndFail("--addr", "127.0.0.1:0", "--admin-addr", taken, ...server);
    expect(ofOperators.lines.find((line) => line.msg === "the port is taken")?.["reason"]).toContain(`${advice} --admin-addr`);
    expect(existsSync(dir.file("started"))).toBe(false);
    const misspelled = await startAndFail("--addr", taken, "healtcheck");
    const meant = misspelled.lines.find((line) => line.msg === "the port is taken")?.["reason"];
    expect(meant).toMatch(/; or did you mean claw-mcp-stdio healthcheck\?$/);
  });

  it("the sidecar exits with 1 if the address is not local, and starts no server", async () => {
    await using dir = await TempDir.create();
    const { code, lines } = await startAndFail("--addr", "192.0.2.1:8080", "--", "touch", dir.file("started"));
    expect(code).toBe(1);
    expect(existsSync(dir.file("started"))).toBe(false);
    const said = lines.find((line) => line.msg === "cannot start");
    expect(said).toMatchObject({ level: "error", code: "EADDRNOTAVAIL", reason: expect.stringContaining(ANOTHER_ADDRESS) as string });
    expect(said).not.toHaveProperty("err");
  });

  it("the sidecar exits with 1 and a stack trace if a defect prevents the start", async () => {
    await using dir = await TempDir.create();
    // Node loads this before the program.
    await writeFile(dir.file("defect.mjs"), 'import net from "node:net";\nnet.Server.prototype.listen = () => Buffer.alloc("x");\n');
    const { code, stdout } = await runMain(["--addr", "127.0.0.1:0", "--", process.execPath, FIXTURE], {
      NODE_OPTIONS: `--import ${dir.file("defect.mjs")}`,
    });
    const said = stdout.split("\n").find((line) => line.includes('"cannot start"')) ?? "{}";
    expect(JSON.parse(said)).toMatchObject({
      code: "ERR_INVALID_ARG_TYPE",
      err: { stack: expect.stringContaining("defect.mjs:2:") as string },
    });
    expect(code).toBe(1);
  });
});

it("a COMMAND that contains a command line is shown without secrets, with advice", async () => {
  const { code, lines } = await startCommand("no-such-program --api-key a-secret-of-some-length");
  const said = lines.find((line) => line.msg === "the command cannot be started");
  expect([code, said]).toMatchObject([127, { line: "no-such-program --api-key ***" }]);
  expect(said?.["reason"]).toContain("no shell splits it into words; write its words without quotes, after --");
  expect(JSON.stringify(lines)).not.toContain("a-secret");
});
