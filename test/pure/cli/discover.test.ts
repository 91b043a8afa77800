import { describe, expect, it } from "vitest";
import { hasTools } from "../../../src/cli/listing.ts";
import { type DiscoverOptions, readDiscoverOptions } from "../../../src/cli/discover.ts";

function options(argv: readonly string[], environment: Readonly<Record<string, string>> = {}): DiscoverOptions {
  const read = readDiscoverOptions(argv, environment);
  if (typeof read === "string" || Array.isArray(read)) throw new Error(JSON.stringify(read));
  return read;
}

function problems(argv: readonly string[], environment: Readonly<Record<string, string>> = {}): readonly string[] {
  const read = readDiscoverOptions(argv, environment);
  return Array.isArray(read) ? read : [];
}

describe("the command line of discover", () => {
  it("every option is read up to the command or --", () => {
    const flags = ["--out", "o.json", "--service=svc", "--description", "Text.", "--image", "i:1", "--timeout-ms", "5"];
    const expected = {
      out: "o.json",
      service: "svc",
      description: "Text.",
      image: "i:1",
      readyTimeoutMs: 5,
      command: "node",
      args: ["--url"],
    };
    expect(options([...flags, "node", "--url"])).toMatchObject(expected);
    expect(options([...flags, "--", "node", "--url"])).toMatchObject(expected);
  });

  it("flags override the environment that a pod has", () => {
    const environment = {
      CLAW_MCP_STDIO_COMMAND: "npx",
      CLAW_MCP_STDIO_ARGS: '["-y","some-mcp"]',
      CLAW_MCP_STDIO_CWD: "/",
      CLAW_MCP_STDIO_PATH: "/tools",
      CLAW_MCP_STDIO_READY_TIMEOUT_MS: "7",
      CLAW_MCP_STDIO_AUTH_TOKEN: "token",
    };
    expect(options([], environment)).toMatchObject({
      url: undefined,
      command: "npx",
      args: ["-y", "some-mcp"],
      cwd: "/",
      path: "/tools",
      readyTimeoutMs: 7,
    });
    expect(options(["--timeout-ms", "9", "node"], environment)).toMatchObject({ command: "node", args: [], readyTimeoutMs: 9 });
    expect(options(["--url", "http://host:1/a/mcp"], environment)).toMatchObject({
      url: new URL("http://host:1/a/mcp"),
      authToken: "token",
      command: "npx",
      args: ["-y", "some-mcp"],
      path: "/a/mcp",
    });
  });

  it.each([
    ["svc", ".claw-discovered/svc.claw-describe.json"],
    [String.raw`a/b\c:d`, ".claw-discovered/a-b-c-d.claw-describe.json"],
    ["../../etc", ".claw-discovered/..-..-etc.claw-describe.json"],
  ])("the service %s is written to %s", (service, out) => {
    expect(options(["--service", service, "node"]).out).toBe(out);
    expect(options(["--service", service, "--out", "o.json", "node"]).out).toBe("o.json");
  });

  it("all problems are reported at once", () => {
    const environment = { CLAW_MCP_STDIO_ARGS: "-y", CLAW_MCP_STDIO_PATH: "mcp", CLAW_MCP_STDIO_CWD: "/no/such/directory" };
    expect(problems(["--no-such", "--service=", "--out", "a", "--check", "b", "--timeout-ms", "1e3"], environment)).toEqual([
      "--no-such is not an option; see discover --help",
      "--service has no value; expected any text without NUL",
      '--timeout-ms is "1e3"; expected a whole number from 1 to 2147483647',
      "--out and --check are both set; use only one of them, since --check writes nothing",
      'CLAW_MCP_STDIO_ARGS is not valid (value not shown): it is not JSON from character 1 on; expected a JSON array of strings without NUL, for example ["-y","some-mcp"]',
      expect.stringContaining('CLAW_MCP_STDIO_PATH is "mcp"; expected a path'),
      'CLAW_MCP_STDIO_CWD is "/no/such/directory"; expected an existing directory',
      "no command is given; put it after the options, set CLAW_MCP_STDIO_COMMAND, or use --url",
    ]);
  });

  it.each(["ftp://host/", "host:8080/mcp", "http://", "http://user:hunter2@host/mcp", "https://:hunter2@host/"])(
    "the URL %s is rejected without showing its possible password",
    (url) => {
      const [problem, ...others] = problems(["--url", url]);
      expect(others).toEqual([]);
      expect(problem).toContain("--url is not valid (value not shown); expected an http: or https: URL without credentials");
    },
  );
});

it.each(["{}", '{"capabilities":[]}', '{"capabilities":{"tools":null}}', '{"capabilities":{"tools":false}}'])(
  "a server with the result %s to initialize is not asked for tools",
  (resultText) => {
    expect(hasTools({ resultText })).toBe(false);
  },
);
