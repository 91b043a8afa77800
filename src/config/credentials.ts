import type { Environment } from "./load.ts";
import { OPTIONS } from "./options.ts";

/** Returns the environment without options that are not secret, even if their names look so: the path of a token file may be shown. */
export function withoutPlainOptions(environment: Environment): Environment {
  const plain = new Set<string>(
    Object.values(OPTIONS)
      .filter(({ isSecret }) => !isSecret)
      .map(({ variable }) => variable),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !plain.has(name)));
}
