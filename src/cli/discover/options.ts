import { join } from "node:path";
import { type CommandLine, type FlagTypes, readCommandLine, unknownFlags } from "../../config/command-line.ts";
import { type Environment, isDirectory } from "../../config/load.ts";
import { MAX_MS } from "../../config/option.ts";
import { OPTIONS } from "../../config/options.ts";
import { anyText, describeInvalid, problemText, type ValueKind, wholeNumber } from "../../config/value-kinds.ts";

/** The source of the tools. */
type ToolSource =
  | { readonly kind: "process"; readonly command: string; readonly args: readonly string[]; readonly cwd: string | undefined }
  | { readonly kind: "url"; readonly url: URL; readonly token: string | undefined };

export interface DiscoverOptions {
  readonly source: ToolSource;
  /** The command with which a pod starts the server; empty if only a URL is given. */
  readonly command: string;
  readonly args: readonly string[];
  readonly service: string | undefined;
  readonly description: string | undefined;
  /** The wrapper image of the pod. */
  readonly image: string | undefined;
  /** The path of the MCP endpoint for clients of the pod. */
  readonly path: string;
  /** The longest time from the start to the end of the list. */
  readonly timeoutMs: number;
  /** The file to write; undefined for stdout. */
  readonly out: string | undefined;
  /** The descriptor to compare with. If set, nothing is written. */
  readonly check: string | undefined;
}

export type DiscoverRequest =
  | { readonly kind: "help" }
  | { readonly kind: "wrong"; readonly problems: readonly string[] }
  | { readonly kind: "discover"; readonly options: DiscoverOptions };

const FLAG_TYPES = {
  help: { type: "boolean", short: "h" },
  out: { type: "string" },
  service: { type: "string" },
  description: { type: "string" },
  image: { type: "string" },
  "timeout-ms": { type: "string" },
  url: { type: "string" },
  check: { type: "string" },
} as const satisfies FlagTypes;

const DEFAULT_TIMEOUT_MS = 60_000;

const httpUrl: ValueKind<URL> = {
  expected: `an http: or https: URL without credentials; set a token in ${OPTIONS.authToken.variable}`,
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
    return isHttp && url.username === "" && url.password === "" ? url : undefined;
  },
};

/** Reads the options of `discover`, from flags before environment variables, and reports all problems at once. */
export function readDiscoverOptions(argv: readonly string[], environment: Environment): DiscoverRequest {
  const commandLine = readCommandLine(argv, FLAG_TYPES);
  const { flags, rest } = commandLine;
  if (flags.has("help") || flags.has("h")) return { kind: "help" };
  const given = new GivenValues(commandLine, environment);
  const { problems } = given;
  // An invalid URL is not shown, because it may contain a password.
  const url = given.flag("url", httpUrl, true);
  const isUrlGiven = flags.has("url");
  const isCommandOnLine = rest.length > 0;
  const command = isCommandOnLine ? rest[0] : given.variable(OPTIONS.command);
  const args = (isCommandOnLine ? rest.slice(1) : given.variable(OPTIONS.args)) ?? [];
  if (!isUrlGiven && (command === undefined || command === "")) {
    problems.push(`no command is given; put it after the options, set ${OPTIONS.command.variable}, or use --url`);
  }
  const service = given.flag("service", anyText);
  const out = given.flag("out", anyText);
  const check = given.flag("check", anyText);
  if (flags.has("out") && flags.has("check"))
    problems.push("--out and --check are both set; use only one of them, since --check writes nothing");
  const path = url === undefined ? given.variable(OPTIONS.path) : url.pathname;
  const timeoutMs = given.flag("timeout-ms", wholeNumber(MAX_MS)) ?? given.variable(OPTIONS.readyTimeoutMs) ?? DEFAULT_TIMEOUT_MS;
  const description = given.flag("description", anyText);
  const image = given.flag("image", anyText);
  const cwd = isUrlGiven ? undefined : given.variable(OPTIONS.cwd);
  if (cwd !== undefined && !isDirectory(cwd)) {
    problems.push(problemText(OPTIONS.cwd.variable, JSON.stringify(cwd), "an existing directory"));
  }
  const token = isUrlGiven ? given.variable(OPTIONS.authToken) : undefined;
  if (problems.length > 0) return { kind: "wrong", problems };
  const source: ToolSource = url === undefined ? { kind: "process", command: command ?? "", args, cwd } : { kind: "url", url, token };
  return {
    kind: "discover",
    options: {
      source,
      command: command ?? "",
      args,
      service,
      description,
      image,
      path: path ?? OPTIONS.path.defaultValue,
      timeoutMs,
      out: out ?? (service === undefined ? undefined : snapshotPath(service)),
      check,
    },
  };
}

/** The flags and variables of `discover`, and the problems with them. */
class GivenValues {
  readonly problems: string[];
  readonly #flags: CommandLine["flags"];
  readonly #environment: Environment;

  constructor({ flags, problems }: CommandLine, environment: Environment) {
    this.#flags = flags;
    this.#environment = environment;
    this.problems = [...problems, ...unknownFlags(flags, Object.keys(FLAG_TYPES), "discover --help")];
  }

  flag<Value>(name: keyof typeof FLAG_TYPES, kind: ValueKind<Value>, isSecret = false): Value | undefined {
    if (!this.#flags.has(name)) return undefined;
    const text = this.#flags.get(name) ?? "";
    const value = text === "" ? undefined : kind.parse(text);
    if (value === undefined) this.problems.push(describeInvalid(`--${name}`, text, { kind, isSecret }));
    return value;
  }

  variable<Value>({ variable: name, kind, isSecret }: Variable<Value>): Value | undefined {
    const text = this.#environment[name] ?? "";
    if (text === "") return undefined;
    const value = kind.parse(text);
    if (value === undefined) this.problems.push(describeInvalid(name, text, { kind, isSecret }));
    return value;
  }
}

interface Variable<Value> {
  readonly variable: string;
  readonly kind: ValueKind<Value>;
  readonly isSecret: boolean;
}

/** Returns the path at which pods look for a service's snapshot. */
function snapshotPath(service: string): string {
  return join(".claw-discovered", `${service.replaceAll(/[/\\:]/g, "-")}.claw-describe.json`);
}

export const DISCOVER_HELP = `claw-mcp-stdio discover: writes the tools of an MCP server to a descriptor, for people to review.

Usage:
  claw-mcp-stdio discover [options] [--] COMMAND [ARG ...]   start the server, list its tools, stop it
  claw-mcp-stdio discover [options]                          the same, with COMMAND and ARGS from the environment
  claw-mcp-stdio discover [options] --url URL                list the tools of a sidecar or other Streamable HTTP server
  claw-mcp-stdio discover --check FILE ...                   write nothing; exit with 3 if the tools differ from FILE

Options:
  --out FILE
      The file to write, which is replaced atomically. It is not changed if only the time differs.
      [default .claw-discovered/SERVICE.claw-describe.json with --service, else stdout]
  --service NAME
      Name of the service in the pod.
  --description TEXT
      The description of the service. [default "NAME MCP stdio tools."]
  --image REF
      The image of the sidecar in the pod. It is only recorded.
  --timeout-ms MS
      Time limit from the start to the last tool. [${OPTIONS.readyTimeoutMs.variable}, default ${DEFAULT_TIMEOUT_MS}]
  --url URL
      The endpoint. The token of ${OPTIONS.authToken.variable} is sent to it. COMMAND is only recorded.
  --check FILE
      The descriptor to compare with; - is standard input. Differences are printed, one per line: + new, - missing, ~ changed.
  -h, --help
      Print this text.

Other variables: ${[OPTIONS.command, OPTIONS.args, OPTIONS.cwd, OPTIONS.path].map(({ variable }) => variable).join(", ")}.

Exit codes: 0 success, or no difference; 1 failure: nothing is written, and the reason and the last lines of the server's
stderr are printed; 2 wrong command line; 3 --check found differences; 128 + n ended by signal n.
`;
