import { describe, expect, it } from "vitest";
import { commandFailure, exitCodeOf, type FailedStart, failureText, watchStart } from "../../../src/cli/start/start-failure.ts";
import type { LogFields } from "../../../src/observability/log.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

/** Returns the failure of a server whose exit is logged with these fields. */
async function failed(fields: LogFields): Promise<FailedStart> {
  const { log, failed: found } = watchStart(new RecordedLog(), true);
  log.warn(fields, "mcp server exited");
  return found;
}

describe("the failure of a server that was never ready", () => {
  it.each([
    [{ kind: "crash", exitCode: 3, reason: "exited with code 3" }, 3, "the MCP server exited with code 3"],
    [{ kind: "signal", signal: "SIGKILL", reason: "ended by SIGKILL" }, 137, "the MCP server was ended by SIGKILL"],
    [{ kind: "clean-exit", exitCode: 0, reason: "exited with code 0" }, 1, "the MCP server exited with code 0"],
    [
      { kind: "handshake-refused", signal: "SIGTERM", reason: "the command echoes its input: it is not an MCP server" },
      1,
      "the MCP server was never ready: the command echoes its input: it is not an MCP server",
    ],
    [
      { kind: "handshake-timeout", exitCode: 143, reason: "no response to initialize within 10 ms" },
      1,
      "the MCP server was never ready: no response to initialize within 10 ms",
    ],
  ])("an exit with %j has the exit code %i", async (fields, exitCode, problem) => {
    const start = await failed(fields);
    expect({ exitCode: exitCodeOf(start), problem: start.failure.problem }).toEqual({ exitCode, problem });
  });
});

describe("the failure of a command", () => {
  it.each([
    ["EACCES", /may not be executed.*make the file executable/i],
    ["ENOTDIR", /cannot be executed \(ENOTDIR\)\.$/],
    ["ENOENT", /does not exist.*did you mean claw-mcp-stdio serve\?/i],
  ])("%s has its own text", (code, text) => {
    expect(
      failureText(commandFailure("start", code, true, ["serve", "discover"]))
        .trim()
        .replaceAll("\n", " "),
    ).toMatch(text);
  });
});
