import { rename, writeFile } from "node:fs/promises";
import type { McpClient } from "./mcp-client.ts";
import { TempDir } from "./temp-dir.ts";

export interface ListedTool {
  readonly name: string;
  readonly [member: string]: unknown;
}

export function listedTool(name: string, annotations?: object | null): ListedTool {
  return { name, inputSchema: { type: "object" }, ...(annotations === undefined ? {} : { annotations }) };
}

/** The fixture's own tools by which tests see its process and the messages that it has received. */
export const WITNESSES: readonly ListedTool[] = ["lines", "seen", "where"].map((name) => listedTool(name, { readOnlyHint: true }));

/** The tools that a fixture lists, in a file that tests rewrite while it runs. The fixture answers a call of one with its arguments. */
export class ListedTools extends TempDir {
  readonly #file = this.file("tools.json");
  #version = 0;

  static override async create(...pages: readonly (readonly ListedTool[])[]): Promise<ListedTools> {
    const listed = new ListedTools(await TempDir.make());
    await listed.list(...pages);
    return listed;
  }

  get env(): Readonly<Record<string, string>> {
    return { FIXTURE_TOOLS: this.#file };
  }

  list(...pages: readonly (readonly ListedTool[])[]): Promise<void> {
    return this.#write({ pages });
  }

  refuse(): Promise<void> {
    return this.#write({ pages: [], error: { code: -32603, message: "no" } });
  }

  fallSilent(): Promise<void> {
    return this.#write({ pages: [], isSilent: true });
  }

  /** Replaces the file atomically, because the fixture may read it at any time. */
  async #write(content: object): Promise<void> {
    const next = this.file(`next-${++this.#version}.json`);
    await writeFile(next, JSON.stringify(content));
    await rename(next, this.#file);
  }
}

export async function calledNames(client: McpClient): Promise<unknown[]> {
  const lines = JSON.parse(await client.toolText("lines")) as string[];
  const messages = lines.map((line) => JSON.parse(line) as { readonly method?: string; readonly params?: { readonly name?: unknown } });
  return messages.filter(({ method }) => method === "tools/call").map(({ params }) => params?.name);
}

export async function listedNames(client: McpClient): Promise<string[][]> {
  const pages: string[][] = [];
  let cursor: unknown;
  do {
    const { result } = await client.request("tools/list", cursor === undefined ? {} : { cursor });
    const { tools, nextCursor } = result as { readonly tools: readonly { readonly name: string }[]; readonly nextCursor?: unknown };
    pages.push(tools.map(({ name }) => name));
    cursor = nextCursor;
  } while (cursor !== undefined);
  return pages;
}
