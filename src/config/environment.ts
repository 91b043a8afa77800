import type { Environment } from "./load.ts";
import { VARIABLE_PREFIX } from "./option.ts";
import { OPTIONS } from "./options.ts";

/** The environment for the MCP server: that of the container, without the sidecar's own variables, which include its token. */
export function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}

/** Returns the environment without options that are not secret, even if their names look so: the path of a token file may be shown. */
export function withoutPlainOptions(environment: Environment): Environment {
  const plain = new Set<string>(
    Object.values(OPTIONS)
      .filter(({ isSecret }) => !isSecret)
      .map(({ variable }) => variable),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !plain.has(name)));
}
