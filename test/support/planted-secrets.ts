import { fileURLToPath } from "node:url";

const TELLTALE_FILE = fileURLToPath(new URL("../fixtures/telltale-server.ts", import.meta.url));

/** The command of a server that tells secrets in every way that a server can. */
export const TELLTALE = [process.execPath, TELLTALE_FILE] as const;

/** Returns those of the secrets that a text reveals, however they are spelled in it, or in a string of JSON in it. */
export function findSecrets(text: string, secrets: readonly string[]): string[] {
  const quoted = (secret: string): string => JSON.stringify(secret).slice(1, -1);
  const spellings = (secret: string): string[] => [secret, quoted(secret), quoted(quoted(secret)), encodeURIComponent(secret)];
  return secrets.filter((secret) => readings(text).some((each) => spellings(secret).some((spelled) => each.includes(spelled))));
}

function readings(text: string): string[] {
  const plain = text.replaceAll(/\\u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)));
  const strings: string[] = [text, plain];
  for (const line of text.split("\n")) {
    try {
      JSON.parse(line, (_key, value: unknown) => {
        if (typeof value === "string") strings.push(value);
        return value;
      });
    } catch {
      // Not JSON.
    }
  }
  return strings;
}
