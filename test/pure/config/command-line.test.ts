import { describe, expect, it } from "vitest";
import { nearest, readCommandLine, unknownFlags } from "../../../src/config/command-line.ts";
import { ALL_OPTIONS } from "../../../src/config/options.ts";

function read(...argv: readonly string[]): { flags: Record<string, string | undefined>; rest: readonly string[] } {
  const { flags, rest } = readCommandLine(argv);
  return { flags: Object.fromEntries(flags), rest };
}

describe("the command line", () => {
  it("the first word that is not an option begins the command", () => {
    expect(read("--port", "9000", "--path=/x", "npx", "-y", "some-mcp", "--port", "1", "--", "--help")).toEqual({
      flags: { port: "9000", path: "/x" },
      rest: ["npx", "-y", "some-mcp", "--port", "1", "--", "--help"],
    });
  });

  it("the word -- ends the options and is dropped", () => {
    expect(read("--port", "9000", "--", "--odd-command", "--port", "1", "--", "x")).toEqual({
      flags: { port: "9000" },
      rest: ["--odd-command", "--port", "1", "--", "x"],
    });
    expect(read("--")).toEqual({ flags: {}, rest: [] });
  });

  it("arguments of the server stay as they are, empty or odd", () => {
    const rest = ["server", "", " ", "-", "--=", "a b", "$HOME", '{"a":1}', "é"];
    expect(read("--", ...rest)).toEqual({ flags: {}, rest });
    expect(read(...rest)).toEqual({ flags: {}, rest });
  });

  it("an option takes its last value, from the next word or after =", () => {
    expect(read("--port", "1", "--port=2", "--auth-token=a=b")).toEqual({ flags: { port: "2", "auth-token": "a=b" }, rest: [] });
  });

  it("an option that takes no value leaves the next word alone", () => {
    expect(read("--check-config", "server")).toEqual({ flags: { "check-config": undefined }, rest: ["server"] });
    expect(read("--help", "--version")).toEqual({ flags: { help: undefined, version: undefined }, rest: [] });
    expect(read("-h", "server")).toEqual({ flags: { help: undefined }, rest: ["server"] });
  });

  it.each(["on", "off"])("a switch followed by the word %s has that value", (word) => {
    for (const name of ["read-only", "require-auth", "modern", "legacy-sse", "keep-trying"]) {
      expect(read(`--${name}`, word, "server", word)).toEqual({ flags: { [name]: word }, rest: ["server", word] });
    }
  });

  it.each([
    ["another word", ["--read-only", "once"]],
    ["the word -- and then on", ["--read-only", "--", "on"]],
    ["a value and then on", ["--read-only=off", "on"]],
    ["another option and its value on", ["--read-only", "--legacy-sse", "on"]],
  ])("a switch followed by %s is not a problem", (_what, argv) => {
    expect(readCommandLine(argv).problems).toEqual([]);
  });

  it("a flag of another program is answered with the way of this one", () => {
    expect(unknownFlags(new Map([["stdio", "npx some-mcp"]]), ["port"], "--help all")).toEqual([
      "--stdio is not an option; write the command of the server, word by word, after --",
    ]);
  });
});

it("each flag is named like its variable, and each variable is unique", () => {
  const variables = ALL_OPTIONS.map(({ variable }) => variable);
  expect(new Set(variables).size).toBe(variables.length);
  const named = ALL_OPTIONS.map(({ flag }) =>
    flag === undefined ? undefined : `CLAW_MCP_STDIO_${flag.toUpperCase().replaceAll("-", "_")}`,
  );
  expect(variables.filter((variable, index) => variable !== named[index])).toEqual(["CLAW_MCP_STDIO_COMMAND", "CLAW_MCP_STDIO_ARGS"]);
});

it.each([
  ["prot", "port"],
  ["read-onyl", "read-only"],
  ["alow-tools", "allow-tools"],
  ["adr", "addr"],
  ["x", undefined],
  ["something-else", undefined],
])("the known word most like %s is %s", (word, expected) => {
  expect(nearest(word, ["port", "path", "addr", "read-only", "allow-tools"])).toBe(expected);
});
