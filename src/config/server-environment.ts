import type { Environment } from "./load.ts";
import { VARIABLE_PREFIX } from "./option.ts";

/** The environment for the MCP server: that of the container, without the sidecar's own variables, which include its token. */
export function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}
