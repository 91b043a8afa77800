import type { Config, LoadResult } from "../config/load.ts";
import type { Option } from "../config/option.ts";
import { OPTION_GROUPS, type OptionKey, OPTIONS } from "../config/options.ts";
import { maskArgs, maskCommand } from "../config/secret-file.ts";
import { bracketed } from "../config/authority.ts";
import { MASK, type Secrets } from "../observe/redact.ts";

export function effectiveConfigJson(config: Config, { replacer }: Secrets): string {
  const { authToken, authTokens: _, sessionKeys: __, sessionKey, command, args, ...rest } = config;
  const masked = {
    ...rest,
    command: maskCommand(command),
    args: maskArgs(args),
    authToken: authToken && MASK,
    sessionKey: sessionKey && MASK,
  };
  return JSON.stringify(masked, replacer, 2);
}

export function effectiveConfigText(config: Config, given: LoadResult["given"], secrets: Secrets): string {
  const groups = Object.entries(OPTION_GROUPS).map(([group, options]) => {
    const lines = (Object.keys(options) as OptionKey[]).map((key) => {
      const option: Option<unknown> = OPTIONS[key];
      const value = valueOf(key, config, given);
      const needsNoQuotes = typeof value === "string" && /^[!-~]+$/.test(value);
      const text = needsNoQuotes ? value : JSON.stringify(value, secrets.replacer);
      const shown = value === undefined ? "not set" : option.kind.isSecret ? MASK : text;
      return secrets.redact(`  ${option.variable} = ${shown}  (${sourceOf(key, config, given)})
`);
    });
    return `${group}:\n${lines.join("")}`;
  });
  return groups.join("\n");
}

function valueOf(key: OptionKey, config: Config, given: LoadResult["given"]): unknown {
  if (key === "command") return config.command === "" ? undefined : maskCommand(config.command);
  if (key === "args") return maskArgs(config.args);
  if (key === "addr") return `${bracketed(config.host ?? "")}:${config.port}`;
  if (key === "host") return config.host ?? "*";
  // Its default depends on the address.
  if (key === "page") return config.page ? "on" : "off";
  const value = config[key];
  // People know only the text of structures, and of `on` and `off`.
  return typeof value === "object" || typeof value === "boolean" ? (given.get(key)?.text ?? OPTIONS[key].defaultText) : value;
}

function sourceOf(key: OptionKey, config: Config, given: LoadResult["given"]): string {
  const { authTokenFile, authTokens } = config;
  if (key === "authToken" && authTokenFile !== undefined) return `${authTokens.length} tokens are in the file ${authTokenFile}`;
  const addr = given.get("addr");
  if ((key === "host" || key === "port") && addr !== undefined) {
    const isReplaced = given.get(key)?.source === `--${key}` && addr.source !== "--addr";
    if (!isReplaced) return `from ${addr.source}`;
  }
  const parts = (["host", "port"] as const).flatMap((part) => given.get(part)?.source ?? []);
  if (key === "addr" && addr === undefined && parts.length > 0) return `from ${parts.join(" and ")}`;
  return `${given.get(key)?.source ?? "default"}${isLowered(key, config, given) ? ", lowered by MEMORY_BUDGET_BYTES" : ""}`;
}

function isLowered(key: OptionKey, config: Config, given: LoadResult["given"]): boolean {
  if (key !== "maxBodyBytes" && key !== "maxLineBytes" && key !== "replayMaxBytes") return false;
  const { kind, defaultValue } = OPTIONS[key];
  const text = given.get(key)?.text;
  return config[key] < ((text === undefined ? undefined : kind.parse(text)) ?? defaultValue);
}
