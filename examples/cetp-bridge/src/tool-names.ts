import { createHash } from "node:crypto";

const MAX_NAME_CHARACTERS = 64;
const MAX_LABEL_CHARACTERS = 28;
const LIKE_HASHED = /-[0-9a-f]{8}$/i;

/**
 * Returns a prefix for each app, by its package: its label as far as names of tools can have it. Apps with the same label all get a hash
 * of their package, so that none takes the place of another. No prefix has `__`: a name is split at its first one.
 */
export function prefixesOf(labels: ReadonlyMap<string, string>): Map<string, string> {
  const plain = [...labels].map(([packageName, label]) => {
    const text = label.replaceAll(/[^A-Za-z0-9-]+/g, "_").slice(0, MAX_LABEL_CHARACTERS);
    return [packageName, text.replaceAll(/^_+|_+$/g, "") || "app"] as const;
  });
  const counts = Map.groupBy(plain, ([, prefix]) => prefix.toLowerCase());
  return new Map(
    plain.map(([packageName, prefix]) => {
      // A label may look like another app's prefix with its hash.
      const isShared = (counts.get(prefix.toLowerCase())?.length ?? 0) > 1 || LIKE_HASHED.test(prefix);
      return [packageName, isShared ? `${prefix}-${hashOf(packageName)}` : prefix];
    }),
  );
}

/** `prefix__tool`. A tool's name that does not fit ends with a hash of itself. */
export function toolName(prefix: string, name: string): string {
  const plain = `${prefix}__${name.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`;
  if (plain.length <= MAX_NAME_CHARACTERS && plain.endsWith(`__${name}`)) return plain;
  const hash = hashOf(name);
  return `${plain.slice(0, MAX_NAME_CHARACTERS - hash.length - 1)}_${hash}`;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 8);
}
