import type { Environment } from "./load.ts";
import { OPTIONS } from "./options.ts";

/** The environment without the options that are no secrets, whatever their names look like: the path of a token file may be shown. */
export function withoutPlainOptions(environment: Environment): Environment {
  const plain = new Set<string>(
    Object.values(OPTIONS)
      .filter(({ isSecret }) => !isSecret)
      .map(({ variable }) => variable),
  );
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !plain.has(name)));
}
