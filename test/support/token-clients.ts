import { writeFile } from "node:fs/promises";
import type { ModernClient } from "./modern-client.ts";
import type { RunningSidecar } from "./running-sidecar.ts";
import type { TempDir } from "./temp-dir.ts";

export const TOKENS = ["first-token-0123456789", "second-token-0123456789", "third-token-0123456789"] as const;

export async function flagsForTokens(directory: TempDir): Promise<readonly string[]> {
  await writeFile(directory.file("tokens"), TOKENS.join("\n"));
  return ["--auth-token-file", directory.file("tokens")];
}

export function tokenClients(sidecar: RunningSidecar, capabilities: object): readonly [ModernClient, ModernClient, ModernClient] {
  const [first, second, third] = TOKENS;
  const clientOf = (token: string): ModernClient => sidecar.modernClient({ capabilities, token });
  return [clientOf(first), clientOf(second), clientOf(third)];
}
