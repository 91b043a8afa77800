import { expect, it } from "vitest";
import { describeExit, type ExitFacts, isCommandUnusable, likelyCause } from "../../../src/process/exit.ts";

const NPX = ["npx", "-y", "some-mcp"];
const UVX = ["uvx", "some-mcp"];
const NODE = ["node", "server.js"];

function causeOf(stderr: string, { exitCode = 1, command = NODE, ...facts }: Partial<ExitFacts> = {}): string | undefined {
  const stderrTail = stderr.split("\n");
  const defaults = { kind: "crash", env: {}, isNoisy: false, isSilent: false, noiseCause: undefined, wasReady: false } as const;
  return likelyCause({ ...defaults, exitCode, command, ...facts, stderrTail });
}

/** Texts of npm 11, uv 0.8, pip, Node 26, Python 3.11 and dash. Only that of `uv` about an unknown package is from its manual. */
const NPM_404 = `npm error code E404
npm error 404 Not Found - GET https://registry.example/some-mpc
npm error 404  The requested resource 'some-mpc@*' could not be found or you do not have permission to access it.
npm error A complete log of this run can be found in: /tmp/.npm/_logs/2026-11-24T11_01_05_705Z-debug-0.log`;
const NPM_REFUSED = `npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:9/some-pkg failed, reason: connect ECONNREFUSED 127.0.0.1:9
npm error     at ClientRequest.emit (node:events:514:20)
npm error If you are behind a proxy, please make sure that the 'proxy' config is set properly.  See: 'npm help config'`;
const NPM_NO_HOST = `npm error code ENOTFOUND
npm error syscall getaddrinfo
npm error errno ENOTFOUND
npm error network request to http://no-such-host.invalid/some-pkg failed, reason: getaddrinfo ENOTFOUND no-such-host.invalid`;
const NPM_OFFLINE = `npm error code ENOTCACHED
npm error request to https://registry.example/some-pkg failed: cache mode is 'only-if-cached' but no cached response is available.`;
const NPM_VERSION = `npm error code ETARGET
npm error notarget No matching version found for is-odd@99.99.99.
npm error notarget In most cases you or one of your dependencies are requesting a package version that doesn't exist.`;
const NPM_CACHE = `npm error code EACCES
npm error syscall mkdir
npm error path /tmp/.npm
npm error errno EACCES
npm error
npm error Your cache folder contains root-owned files, due to a bug in previous versions of npm which has since been addressed.`;
const NPX_NO_PROGRAM = `npm error could not determine executable to run
npm error A complete log of this run can be found in: /tmp/.npm/_logs/2026-11-24T11_05_26_205Z-debug-0.log`;
const NOT_EXECUTABLE = "sh: 1: mcp-server-memory: Permission denied";
const NOT_FOUND = "sh: 1: no-such-bin: not found";
const UV_REFUSED = `error: Failed to fetch: \`http://127.0.0.1:9/simple/mcp-server-time/\`
  Caused by: Request failed after 3 retries
  Caused by: error sending request for url (http://127.0.0.1:9/simple/mcp-server-time/)
  Caused by: client error (Connect)
  Caused by: tcp connect error: Connection refused (os error 111)`;
const UV_OFFLINE = `  × No solution found when resolving tool dependencies:
  ╰─▶ Because mcp-server-time was not found in the cache and you require
      mcp-server-time, we can conclude that your requirements are
      unsatisfiable.`;
const UV_UNKNOWN = `  × No solution found when resolving tool dependencies:
  ╰─▶ Because no-such-mcp was not found in the package registry and you
      require no-such-mcp, we can conclude that your requirements are
      unsatisfiable.`;
const PIP_UNKNOWN = `ERROR: Could not find a version that satisfies the requirement no-such-mcp (from versions: none)
ERROR: No matching distribution found for no-such-mcp`;
const NO_PACKAGE = `node:internal/modules/package_json_reader:343
  throw new ERR_MODULE_NOT_FOUND(packageName, fileURLToPath(base), null);
        ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'no-such-module' imported from /srv/a.mjs
    at Object.getPackageJSONURL (node:internal/modules/package_json_reader:343:9) {
  code: 'ERR_MODULE_NOT_FOUND'
}

Node.js v26.10.0`;
const NO_MODULE = `Error: Cannot find module './nope'
Require stack:
- /srv/a.cjs
    at Module._resolveFilename (node:internal/modules/cjs/loader:1591:15)`;
const NO_SCRIPT = `Error: Cannot find module '/srv/missing.mjs'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1591:15) {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}`;
const NO_PYTHON_MODULE = `Traceback (most recent call last):
  File "<string>", line 1, in <module>
ModuleNotFoundError: No module named 'no_such_mod'`;
const NO_PYTHON_SCRIPT = "/usr/bin/python3: can't open file '/nope.py': [Errno 2] No such file or directory";
const OLD_NODE = `npm warn EBADENGINE   required: { node: '>=99' },
npm warn EBADENGINE   current: { node: 'v26.10.0', npm: '11.19.1' }
npm warn EBADENGINE }
/tmp/.npm/_npx/1/node_modules/eng/x.js:2
const a = 1 =;
          ^

SyntaxError: Invalid left-hand side in assignment
    at wrapSafe (node:internal/modules/cjs/loader:1888:18)`;

it.each([
  ["npm knows no such package", NPM_404, { command: NPX }, "npm's registry has no package some-mpc;"],
  ["npm knows no such version", NPM_VERSION, { command: NPX }, "npm's registry has no version is-odd@99.99.99;"],
  ["npm's registry refuses connections", NPM_REFUSED, { command: NPX }, "npm cannot reach its registry (ECONNREFUSED);"],
  ["npm's registry has no address", NPM_NO_HOST, { command: NPX }, "npm cannot reach its registry (ENOTFOUND);"],
  ["npm is offline", NPM_OFFLINE, { command: NPX }, "npm is offline and its cache lacks the package;"],
  ["npm's cache belongs to another user", NPM_CACHE, { command: NPX }, "npm cannot write /tmp/.npm;"],
  ["a package has no program", NPX_NO_PROGRAM, { command: NPX }, "the package has no program that npx could choose;"],
  ["/tmp is mounted noexec", NOT_EXECUTABLE, { command: NPX, exitCode: 126 }, "npm's cache is mounted noexec, so mcp-server-memory cannot"],
  ["a program is not installed", NOT_FOUND, { command: NPX, exitCode: 127 }, "the program no-such-bin is not installed;"],
  ["uv's index refuses connections", UV_REFUSED, { command: UVX, exitCode: 2 }, "uv cannot reach the Python index;"],
  ["uv is offline", UV_OFFLINE, { command: UVX }, "uv is offline and its cache lacks the package mcp-server-time;"],
  ["uv knows no such package", UV_UNKNOWN, { command: UVX }, "the Python index has no package no-such-mcp;"],
  ["pip knows no such package", PIP_UNKNOWN, {}, "the Python index has no package no-such-mcp;"],
  ["a package of Node is missing", NO_PACKAGE, {}, "the module no-such-module is missing;"],
  ["a module of Node is missing", NO_MODULE, {}, "the module ./nope is missing;"],
  ["the script does not exist", NO_SCRIPT, {}, "the file /srv/missing.mjs does not exist;"],
  ["a module of Python is missing", NO_PYTHON_MODULE, {}, "the module no_such_mod is missing;"],
  [
    "the module that Python should run is missing",
    "/usr/bin/python3: No module named no_such_mod",
    {},
    "the module no_such_mod is missing;",
  ],
  ["the Python script does not exist", NO_PYTHON_SCRIPT, { exitCode: 2 }, "the file /nope.py does not exist;"],
  ["the package is for another Node", OLD_NODE, { command: NPX }, "the package needs another version of Node;"],
  [
    "a port of the server is taken",
    "listen EADDRINUSE: address already in use 127.0.0.1:8790: set GATEWAY_ADDR",
    {},
    "another program listens at the server's address 127.0.0.1:8790;",
  ],
  [
    "a port of a Python server is taken",
    "OSError: [Errno 98] Address already in use",
    {},
    "another program listens at the server's address;",
  ],
  ["an argument is missing", "Usage: mcp-server-files [options] <directory>", {}, "the arguments of the server are wrong or missing;"],
] satisfies [string, string, Partial<ExitFacts>, string][])("a cause is named if %s", (_case, stderr, facts, cause) => {
  expect(causeOf(stderr, facts)).toContain(cause);
});

it.each([
  "Error: BRAVE_API_KEY environment variable is required",
  "BRAVE_API_KEY is not set",
  "Fatal: the environment variable BRAVE_API_KEY must be set",
  "Missing required environment variable: BRAVE_API_KEY",
  "Please set BRAVE_API_KEY",
  "Please provide your BRAVE_API_KEY",
  "KeyError: 'BRAVE_API_KEY'",
  "ValueError: BRAVE_API_KEY missing",
])("a missing variable is named: %s", (line) => {
  expect(causeOf(`starting\n${line}\n    at main (server.js:3:7)`)).toBe(
    "the variable BRAVE_API_KEY is missing; set it in the environment of the sidecar, which passes it on",
  );
});

it.each(["Error: API key is required", "An access token must be provided.", "missing API_KEY", "No auth token: it is required"])(
  "a missing key without a name of its own is recognized: %s",
  (line) => {
    expect(causeOf(line)).toMatch(/^(?:a key or variable of the server|the variable API_KEY) is missing;/);
  },
);

it.each([
  ["SyntaxError: Unexpected token '}', missing ) after argument list"],
  ["read BRAVE_API_KEY. The index file is missing"],
  ["cannot open the database"],
  ["Error: connect ECONNREFUSED 10.0.0.5:5432"],
  ["BRAVE_API_KEY is set"],
  ["TypeError: x is not a function"],
  ["Error [ERR_INVALID_ARG_TYPE]: the argument is required"],
  ["sh: 1: mcp-server-memory: Permission denied"],
  [""],
])("no cause is named for an unclear line: %s", (line) => {
  expect(causeOf(line)).toBeUndefined();
});

it("a kill for lack of memory has a remedy, even after the handshake", () => {
  expect(causeOf("", { kind: "out-of-memory", wasReady: true })).toContain("raise the limit of the container");
});

it("lines of a server that was ready may be about a request, so they show no cause", () => {
  expect(causeOf(NPM_404, { command: NPX, wasReady: true })).toBeUndefined();
});

it("a warning about a setting with a default hides no other cause", () => {
  const warning = "warning: LOG_LEVEL is not set, using info";
  expect(causeOf(warning)).toBeUndefined();
  expect(causeOf(`${warning}\nError: API_KEY is missing`)).toContain("the variable API_KEY is missing");
});

it("a program that prints text and ends without an error is not an MCP server", () => {
  expect(causeOf("", { kind: "clean-exit", exitCode: 0, isNoisy: true })).toContain("the command is not an MCP server");
  expect(causeOf("", { kind: "clean-exit", exitCode: 0 })).toBeUndefined();
  expect(causeOf("", { isNoisy: true })).toBeUndefined();
});

it("the command of a shell is searched for npx", () => {
  expect(causeOf(NOT_EXECUTABLE, { command: ["sh", "-c", "exec npx -y some-mcp"], exitCode: 126 })).toContain("noexec");
});

const NOTHING = { exitCode: undefined, signal: undefined, spawnErrorCode: undefined, hadMemoryKills: false };

it.each([
  { exit: { exitCode: 3 }, reason: "exited with code 3 before it answered initialize" },
  {
    exit: { exitCode: 0 },
    reason: "exited with code 0 before it answered initialize; is it an MCP server that speaks on stdin and stdout?",
  },
  { exit: { signal: "SIGSEGV" }, reason: "ended by SIGSEGV before it answered initialize" },
  { exit: { spawnErrorCode: "EAGAIN" }, reason: "could not be started (EAGAIN)" },
])("the reason names the missing response, unless the server did not start: $reason", ({ exit, reason }) => {
  expect(describeExit({ ...NOTHING, ...exit }, "initialize")).toMatchObject({ reason });
});

it.each([
  { exit: { signal: "SIGKILL" }, reason: "ended by SIGKILL: the kernel killed it for lack of memory" },
  { exit: { exitCode: 137 }, reason: "exited with code 137: the kernel killed it for lack of memory" },
])("the kernel's kill is a lack of memory, also of a server behind a shell: $reason", ({ exit, reason }) => {
  expect(describeExit({ ...NOTHING, ...exit, hadMemoryKills: true })).toEqual({ kind: "out-of-memory", reason });
  expect(describeExit({ ...NOTHING, ...exit })).not.toMatchObject({ kind: "out-of-memory" });
  const { reason: inHandshake } = describeExit({ ...NOTHING, ...exit, hadMemoryKills: true }, "initialize");
  expect(inHandshake).toBe(reason.replace(":", " before it answered initialize:"));
});

it.each([{ signal: "SIGTERM" }, { exitCode: 1 }, { exitCode: 0 }, { spawnErrorCode: "EAGAIN" }])(
  "another exit keeps its kind while the kernel kills for memory: %j",
  (exit) => {
    expect(describeExit({ ...NOTHING, ...exit, hadMemoryKills: true })).toEqual(describeExit({ ...NOTHING, ...exit }));
  },
);

it("an unusable program makes the command unusable, and a lack of resources does not", () => {
  const codes = ["ENOENT", "EACCES", "ENOTDIR", "ENOEXEC", "EAGAIN", "ENOMEM", "EMFILE", undefined];
  expect(codes.filter((spawnErrorCode) => isCommandUnusable({ ...NOTHING, spawnErrorCode }))).toEqual([
    "ENOENT",
    "EACCES",
    "ENOTDIR",
    "ENOEXEC",
  ]);
});
