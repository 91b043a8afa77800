import type { Environment } from "./load.ts";
import { VARIABLE_PREFIX } from "./option.ts";

/** The environment of the container, without the sidecar's own variables: its token is not the server's business. */
export function serverEnvironment(environment: Environment): Record<string, string> {
  const own: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !name.startsWith(VARIABLE_PREFIX)) own[name] = value;
  }
  return own;
}
