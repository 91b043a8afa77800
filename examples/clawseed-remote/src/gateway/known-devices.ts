// The devices of DEVICE_TOKENS_FILE, and their names.

import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { SettingError } from "../setting-error.ts";

export interface KnownDevice {
  readonly device: string;
  /** SHA-256 of its token. */
  readonly digest: Buffer;
  readonly allowedTools: RegExp;
}

/** At most 24 lower-case letters and digits, with single `-` or `_` between them: `__` then separates device and tool without doubt. */
export const DEVICE_NAME = /^(?=.{1,24}$)[a-z0-9]+(?:[-_][a-z0-9]+)*$/;
const MIN_TOKEN_LENGTH = 16;

const digestOf = (token: string): Buffer => createHash("sha256").update(token).digest();

/** Reads lines like `pixel-8 TOKEN camera,device_*`. @throws SettingError that names the line, and never has its text. */
export function readTokens(path: string): KnownDevice[] {
  const known: KnownDevice[] = [];
  for (const [index, line] of readText(path).split("\n").entries()) {
    if (/^\s*(?:#|$)/.test(line)) continue;
    const [device = "", token = "", patterns = "*", ...rest] = line.trim().split(/\s+/);
    const place = `DEVICE_TOKENS_FILE, line ${index + 1}`;
    const digest = digestOf(token);
    if (!DEVICE_NAME.test(device)) throw new SettingError(`${place}: the name must be like pixel-8, with at most 24 characters`);
    if (token.length < MIN_TOKEN_LENGTH) throw new SettingError(`${place}: the token needs at least ${MIN_TOKEN_LENGTH} characters`);
    if (rest.length > 0) throw new SettingError(`${place}: only NAME TOKEN PATTERNS are allowed`);
    if (known.some((other) => other.device === device)) throw new SettingError(`${place}: the name occurs twice`);
    if (known.some((other) => other.digest.equals(digest))) throw new SettingError(`${place}: the token occurs twice`);
    known.push({ device, digest, allowedTools: toolPatterns(patterns, place) });
  }
  if (known.length === 0) throw new SettingError("DEVICE_TOKENS_FILE has no devices: write a line NAME TOKEN for each");
  return known;
}

/** @param authorization the header of a device. */
export function findByToken(known: readonly KnownDevice[], authorization = ""): KnownDevice | undefined {
  const digest = digestOf(/^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? "");
  return known.find((each) => timingSafeEqual(each.digest, digest));
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw new SettingError(`DEVICE_TOKENS_FILE cannot be read: ${(error as NodeJS.ErrnoException).code ?? "error"}`);
  }
}

/** @param text patterns of tool names such as `camera,device_*`. @param place names the setting in errors. */
export function toolPatterns(text: string, place: string): RegExp {
  if (!/^[\w*-]+(?:,[\w*-]+)*$/.test(text)) throw new SettingError(`${place}: patterns of tools must be like camera,device_*`);
  return new RegExp(`^(?:${text.replaceAll(",", "|").replaceAll(/\*+/g, ".*")})$`);
}
