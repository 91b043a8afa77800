import { basename } from "node:path";
import { shorten } from "../json/text.ts";
import { NO_VERSION } from "../mcp/message.ts";
import { OTHER_TEXT } from "../mcp/server-line.ts";
import type { ExitKind } from "../observe/record.ts";
import type { ProcessExit } from "./child.ts";
import type { UpstreamExit } from "./port.ts";

const OTHER_PROGRAM = "; is it an MCP server that speaks on stdin and stdout?";

/** The exit code of a shell or npm whose child SIGKILL ended: 128 + 9. */
const KILLED_CODE = 137;

/**
 * Describes an exit that the sidecar did not request.
 *
 * @param awaited the method of the request that was not answered yet.
 * @param refusal the error that an earlier request of the same handshake got.
 */
export function describeExit(
  { exitCode, signal, spawnErrorCode, hadMemoryKills = false }: ProcessExit,
  awaited?: string,
  refusal?: string,
): Pick<UpstreamExit, "kind" | "reason"> {
  const first = refusal === undefined ? "" : `${refusal}; then it `;
  if (spawnErrorCode !== undefined) return { kind: "spawn-failed", reason: `${first}could not be started (${spawnErrorCode})` };
  const how = `${first}${signal === undefined ? `exited with code ${exitCode ?? "unknown"}` : `ended by ${signal}`}`;
  const end = `${how}${awaited === undefined ? "" : ` before it answered ${awaited}`}`;
  if (hadMemoryKills && (signal === "SIGKILL" || exitCode === KILLED_CODE))
    return { kind: "out-of-memory", reason: `${end}: the kernel killed it for lack of memory` };
  if (signal !== undefined) return { kind: "signal", reason: end };
  if (exitCode !== 0) return { kind: "crash", reason: end };
  return { kind: "clean-exit", reason: awaited === "initialize" ? `${end}${OTHER_PROGRAM}` : end };
}

/** A retry cannot repair these. Other codes, such as EAGAIN, mean that the machine is short of a resource. */
const UNUSABLE_COMMAND_CODES: ReadonlySet<string> = new Set([
  "ENOENT",
  "EACCES",
  "EPERM",
  "ENOTDIR",
  "ELOOP",
  "ENAMETOOLONG",
  "ENOEXEC",
  "EISDIR",
  "E2BIG",
]);

/** At the first start, the configuration is wrong. */
export function isCommandUnusable({ spawnErrorCode }: ProcessExit): boolean {
  return spawnErrorCode !== undefined && UNUSABLE_COMMAND_CODES.has(spawnErrorCode);
}

export interface ExitFacts {
  readonly kind: ExitKind;
  readonly exitCode: number | undefined;
  readonly stderrTail: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly isNoisy: boolean;
  /** Nothing was printed to stdout until the sidecar stopped the server. */
  readonly isSilent: boolean;
  readonly noiseCause: string | undefined;
  /** If so, the last lines may be about a client's request. */
  readonly wasReady: boolean;
}

const MAX_SUBJECT_LENGTH = 100;

const NETWORK_CODES = "ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ENETUNREACH|EHOSTUNREACH";
const CERTIFICATE_CODES = "SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_\\w+|CERT_\\w+";
/** With an underscore. Node's own error codes look the same. */
const VARIABLE = "\\b(?!ERR_)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\\b";
const CREDENTIAL = "\\b(?:(?:API|access|auth|bot|bearer)[ _-]?(?:key|token)|environment variables?)\\b";
const MISSING = "\\b(?:is |are )?(?:required|missing|undefined|not (?:set|defined|provided|found|configured)|must be (?:set|provided))\\b";
const DEFAULTED = /\bnot (?:set|defined|provided|found|configured)\b.*\b(?:using|default)/i;
const NEAR = "[^.;\\n]{0,60}?";

const CREDENTIAL_MISSING = "a key or variable of the server is missing; set it in the environment of the sidecar, which passes it on";
const VARIABLE_MISSING = "the variable % is missing; set it in the environment of the sidecar, which passes it on";
const OTHER_NODE = "the package needs another version of Node; use an image or a machine that has it";
const FRAMING =
  "the server puts Content-Length headers before its messages, as language servers do; MCP needs one message a line, so choose the server's mode for MCP, or correct it";

/**
 * The first match in the last lines of stderr counts, so certain rules come first. A group of the pattern takes the place of `%`. A rule
 * may need one of some exit codes, and one of some words in the command.
 */
const RULES: readonly (readonly [
  pattern: RegExp,
  cause: string,
  exitCodes?: readonly number[] | undefined,
  programs?: readonly string[],
])[] = [
  [
    /^npm (?:error|ERR!) (?:code E404\b|404 Not Found)(?:[^]*?The requested resource '([^'\n]+?)(?:@\*)?' could not be found)?/m,
    "npm's registry has no package %; correct its name, or set npm_config_registry and its token",
  ],
  [/^npm (?:error|ERR!) notarget No matching version found for (\S+?)\.$/m, "npm's registry has no version %; correct or omit the version"],
  [
    new RegExp(`^npm (?:error|ERR!) (?:code|errno) (${CERTIFICATE_CODES})$`, "m"),
    "npm does not trust the certificate of its registry (%); set NODE_EXTRA_CA_CERTS",
  ],
  [
    new RegExp(`^npm (?:error|ERR!) (?:code|errno) (${NETWORK_CODES})$`, "m"),
    "npm cannot reach its registry (%); check the network, the proxy and npm_config_registry",
  ],
  [/^npm (?:error|ERR!) code ENOTCACHED$/m, "npm is offline and its cache lacks the package; allow the download, or fill the cache"],
  [
    /^npm (?:error|ERR!) code (?:EACCES|EPERM|EROFS)$[^]*?^npm (?:error|ERR!) path (.+)$/m,
    "npm cannot write %; make it writable for the user of the sidecar",
  ],
  [/^npm (?:error|ERR!) code ENOSPC$/m, "npm's cache has no space left; give its file system more"],
  [
    /^npm (?:error|ERR!) could not determine executable to run/m,
    "the package has no program that npx could choose; name one: npx -y -p PACKAGE PROGRAM",
  ],
  [/^npm (?:error|ERR!) code EBADENGINE$/m, OTHER_NODE],
  [
    /^(?:sh|dash|bash|ash)(?:: (?:line )?\d+)?: (\S+): Permission denied$/m,
    "npm's cache is mounted noexec, so % cannot run; use --tmpfs /tmp:exec, or another npm_config_cache",
    [126],
    ["npx", "npm"],
  ],
  [
    /^error: Failed to spawn: `([^`\n]+)`\n\s*Caused by: Permission denied/m,
    "uv's cache is mounted noexec, so % cannot run; use --tmpfs /tmp:exec, or another UV_CACHE_DIR",
    undefined,
    ["uvx", "uv"],
  ],
  [
    /^(?:sh|dash|bash|ash)(?:: (?:line )?\d+)?: (\S+): (?:command )?not found$/m,
    "the program % is not installed; install it, or correct its name",
    [127],
  ],
  [/Because (\S+) was not found in the cache/, "uv is offline and its cache lacks the package %; allow the download, or fill the cache"],
  [
    /Because (?:(\S+) was not found in the package registry|there (?:is|are) no versions? of (\S+))/,
    "the Python index has no package %; correct its name or version, or set UV_DEFAULT_INDEX",
  ],
  [
    /^ERROR: No matching distribution found for (\S+)$/m,
    "the Python index has no package %; correct its name or version, or set PIP_INDEX_URL",
  ],
  [
    /^error: (?:Failed to fetch|Request failed)[^]*?(?:dns error|tcp connect error|error sending request)/m,
    "uv cannot reach the Python index; check the network, the proxy and UV_DEFAULT_INDEX",
  ],
  [
    /\bEADDRINUSE\b(?:[^\n]*? (\S+:\d+)\b)?|\baddress already in use\b/i,
    "another program listens at the server's address %; end it, or give the server another port",
  ],
  [/^KeyError: '([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)'$/m, VARIABLE_MISSING],
  [
    new RegExp(`(${VARIABLE})${NEAR}${MISSING}|${MISSING}${NEAR}(${VARIABLE})|\\b(?:set|provide) (?:the |your |an? )?(${VARIABLE})`),
    VARIABLE_MISSING,
  ],
  [new RegExp(`${CREDENTIAL}${NEAR}${MISSING}|${MISSING}${NEAR}${CREDENTIAL}`, "i"), CREDENTIAL_MISSING],
  [
    /^(?:Error: Cannot find module '(\/[^'\n]+)'\n(?! *Require stack)|\S*python\S*: can't open file '([^'\n]+)')/m,
    "the file % does not exist; correct its path, or mount it",
  ],
  [
    /^(?:Error(?: \[ERR_MODULE_NOT_FOUND\])?: Cannot find (?:module|package) '([^'\n]+)'|(?:ModuleNotFoundError|\S*python\S*): No module named '?([\w.]+))/m,
    "the module % is missing; install the dependencies of the server",
  ],
  [/^npm warn EBADENGINE\b[^]*^(?:SyntaxError|TypeError|ReferenceError|Error \[ERR_UNKNOWN_BUILTIN_MODULE\])\b/im, OTHER_NODE],
  [/Header must provide a Content-Length property/, FRAMING],
  [/^usage: /im, "the arguments of the server are wrong or missing; stderr has its usage", [1, 2, 64]],
];

const MAX_SEARCHED_LENGTH = 1000;

/** Returns what a line of stdout shows about a server whose messages cannot be read. @param reason of skipping it. */
export function causeOnStdout(fullLine: string, reason: string): string | undefined {
  const line = fullLine.slice(0, MAX_SEARCHED_LENGTH);
  if (/^Content-Length:\s*\d/i.test(line)) return FRAMING;
  if (/^\s*"jsonrpc"\s*:/.test(line)) return "the server spreads a message over several lines; make it write each message on one line";
  if (reason === NO_VERSION) {
    // Lines of a log may have members named id or result, but hardly the id of the handshake.
    const isResponse = /"id"\s*:\s*"?0\b/.test(line) && /"(?:result|error)"\s*:/.test(line);
    return isResponse ? 'the server omits "jsonrpc": "2.0" in its responses; correct the server' : undefined;
  }
  if (!/["']jsonrpc["']\s*:/.test(line)) return undefined;
  return reason === OTHER_TEXT
    ? "the server prints other text on the lines of its messages; make it print that to stderr"
    : "the server's messages are not JSON; make it print other text to stderr, and in Python print json.dumps(message), without NaN, not the message itself";
}

/** uv and pipx may start any other program too. */
const PYTHON = /^(?:python|pypy)[\d.]*$|^(?:uv|uvx|pipx)$|\.py$/;

/** Undefined unless the cause is well known, because none is better than a wrong one. Only people read it. */
export function likelyCause(facts: ExitFacts): string | undefined {
  const { kind, isNoisy, wasReady, noiseCause } = facts;
  if (kind === "out-of-memory") return "the memory limit is too low for this server; raise the limit of the container";
  if (wasReady || (kind !== "crash" && kind !== "clean-exit" && kind !== "handshake-timeout")) return undefined;
  const words = facts.command.flatMap((word) => word.split(/\s+/));
  const cause = kind === "handshake-timeout" ? undefined : stderrCause(facts, new Set(words.map((word) => basename(word))));
  if (cause !== undefined) return cause;
  if (noiseCause !== undefined) return noiseCause;
  if (kind === "clean-exit" && isNoisy) return "the command is not an MCP server: it prints text to stdout and ends; correct the command";
  return kind === "handshake-timeout" && facts.isSilent && isBufferedPython(words, facts.env) ? BUFFERED : undefined;
}

function stderrCause({ exitCode, stderrTail }: ExitFacts, programs: ReadonlySet<string>): string | undefined {
  const text = stderrTail.filter((line) => !DEFAULTED.test(line)).join("\n");
  for (const [pattern, cause, exitCodes, names] of RULES) {
    if (exitCodes?.includes(exitCode ?? 0) === false || names?.some((name) => programs.has(name)) === false) continue;
    const match = pattern.exec(text);
    if (match === null) continue;
    const subject = match.slice(1).find((group) => group !== undefined) ?? "";
    return subject === "" ? cause.replace(" %", "") : cause.replace("%", () => shorten(subject, MAX_SUBJECT_LENGTH));
  }
  return undefined;
}

const BUFFERED =
  "the server printed nothing to stdout; if it writes its responses with print() in Python, they may be stuck in a buffer: start it with python3 -u, or set PYTHONUNBUFFERED=1; if it only starts slowly, give it more time";

/** Python keeps its output in a buffer unless the program flushes it. */
function isBufferedPython(words: readonly string[], env: Readonly<Record<string, string>>): boolean {
  return (
    words.some((word) => PYTHON.test(basename(word))) &&
    !words.some((word) => /^-[A-Za-z]*u[A-Za-z]*$/.test(word)) &&
    (env["PYTHONUNBUFFERED"] ?? "") === ""
  );
}
