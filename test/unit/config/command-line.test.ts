import { describe, expect, it } from "vitest";
import { readCommandLine } from "../../../src/config/load.ts";

function read(...argv: readonly string[]): { flags: Record<string, string | undefined>; rest: readonly string[] } {
  const { flags, rest } = readCommandLine(argv);
  return { flags: Object.fromEntries(flags), rest };
}

describe("readCommandLine", () => {
  it("reads nothing from nothing", () => {
    expect(read()).toEqual({ flags: {}, rest: [] });
  });

  it("splits at the first word that is no option: what follows is the server's, its options too", () => {
    expect(read("--port", "9000", "--path=/x", "npx", "-y", "some-mcp", "--port", "1", "--", "--help")).toEqual({
      flags: { port: "9000", path: "/x" },
      rest: ["npx", "-y", "some-mcp", "--port", "1", "--", "--help"],
    });
  });

  it("splits at --, which itself is nobody's", () => {
    expect(read("--port", "9000", "--", "--odd-command", "--port", "1", "--", "x")).toEqual({
      flags: { port: "9000" },
      rest: ["--odd-command", "--port", "1", "--", "x"],
    });
    expect(read("--")).toEqual({ flags: {}, rest: [] });
  });

  it("keeps arguments of the server as they are: empty ones, ones with spaces, ones that look like anything", () => {
    const rest = ["server", "", " ", "-", "--=", "a b", "$HOME", '{"a":1}', "é"];
    expect(read("--", ...rest)).toEqual({ flags: {}, rest });
    expect(read(...rest)).toEqual({ flags: {}, rest });
  });

  it("takes the value of an option from the next word or from behind =, and the last of several", () => {
    expect(read("--port", "1", "--port=2", "--auth-token=a=b")).toEqual({ flags: { port: "2", "auth-token": "a=b" }, rest: [] });
  });

  it("knows an option without its value", () => {
    expect(read("--port")).toEqual({ flags: { port: undefined }, rest: [] });
    expect(read("--port=", "server")).toEqual({ flags: { port: "" }, rest: ["server"] });
  });

  it("takes no value for the options that have none", () => {
    expect(read("--check-config", "server")).toEqual({ flags: { "check-config": undefined }, rest: ["server"] });
    expect(read("--help", "--version")).toEqual({ flags: { help: undefined, version: undefined }, rest: [] });
    expect(read("-h", "server")).toEqual({ flags: { help: undefined }, rest: ["server"] });
  });

  it("keeps options that it does not know, for a report", () => {
    expect(read("--prot", "9000")).toEqual({ flags: { prot: undefined }, rest: ["9000"] });
    expect(read("--constructor=1", "--no-port", "-x", "server").flags).toEqual({ constructor: "1", "no-port": undefined, x: undefined });
  });
});
