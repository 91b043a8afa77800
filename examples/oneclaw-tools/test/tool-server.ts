import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { ModernSdkClient } from "../../../test/support/modern-sdk-client.ts";
import { InteropClient, type Question, type Sdk } from "../../../test/support/sdk-clients.ts";
import { Sidecar } from "../../../test/support/sidecar.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import type { ToolResult } from "../src/tool.ts";

export const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
export const SERVER_WITH_MORE_TOOLS = fileURLToPath(new URL("server-with-more-tools.ts", import.meta.url));

type Arguments = Readonly<Record<string, unknown>>;
type Answer = (question: Question) => object | Promise<object>;

/** A client that reads results of the tools. */
export interface ToolClient extends AsyncDisposable {
  readonly call: (name: string, args?: Arguments, signal?: AbortSignal) => Promise<ToolResult>;
  readonly names: () => Promise<string[]>;
}

/** The server behind a real sidecar, with a folder of its own. */
export class ToolServer implements AsyncDisposable {
  readonly folder: TempDir;
  readonly sidecar: Sidecar;

  private constructor(folder: TempDir, sidecar: Sidecar) {
    [this.folder, this.sidecar] = [folder, sidecar];
  }

  static async start(
    env: Readonly<Record<string, string>> = {},
    entry = SERVER_WITH_MORE_TOOLS,
    flags: readonly string[] = [],
  ): Promise<ToolServer> {
    const folder = await TempDir.create();
    const variables = { ONECLAW_FOLDER: folder.path, ...env };
    return new ToolServer(folder, await Sidecar.start({ command: [process.execPath, entry], env: variables, flags }));
  }

  /** A client of sessions. With an answer, it can be asked, and has a private server. */
  async session(answer?: Answer, sdk: Sdk = "v2"): Promise<ToolClient> {
    const client = await InteropClient.connect(sdk, this.sidecar.url, answer === undefined ? { lane: "shared" } : { answer });
    return {
      call: async (name, args = {}, signal) => readResult(await client.callTool(name, args, signal === undefined ? {} : { signal })),
      names: async () => (await client.listTools()).map((tool) => tool.name),
      [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
    };
  }

  /** A client of 2026-07-28. */
  async stateless(answer?: (message: string, choices: readonly string[]) => object): Promise<ToolClient> {
    const client = await ModernSdkClient.connect(this.sidecar.url, "pinned", answer === undefined ? {} : { elicitation: { form: {} } });
    if (answer !== undefined) {
      client.setRequestHandler("elicitation/create", (request) => {
        const { message, choices } = readQuestion(request.params);
        return answer(message, choices) as never;
      });
    }
    return {
      call: async (name, args = {}) => readResult(await client.callTool({ name, arguments: args })),
      names: async () => (await client.listTools()).tools.map((tool) => tool.name),
      [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sidecar[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
};

/** The server on bare pipes, for messages that no SDK sends. */
export class RawServer implements AsyncDisposable {
  readonly process: ChildProcessWithoutNullStreams;
  readonly exited: Promise<unknown[]>;
  readonly #lines: AsyncIterator<string>;

  constructor(folder: string) {
    this.process = spawn(process.execPath, [SERVER_WITH_MORE_TOOLS], { env: { ONECLAW_FOLDER: folder } });
    this.exited = once(this.process, "exit");
    // Writes after its end.
    this.process.stdin.on("error", () => {});
    this.#lines = createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  send(id: number, method: string, params: object): void {
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  }

  call(id: number, name: string, args: unknown): void {
    this.send(id, "tools/call", { name, arguments: args });
  }

  /** A call of 2026-07-28. */
  statelessCall(id: number, name: string, capabilities: object, more: object = {}): void {
    this.send(id, "tools/call", {
      name,
      arguments: {},
      _meta: { ...ENVELOPE, "io.modelcontextprotocol/clientCapabilities": capabilities },
      ...more,
    });
  }

  async initialize(): Promise<void> {
    this.send(0, "initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } });
    await this.next();
  }

  /** The next message of the server, or undefined after the last one. */
  async next(): Promise<{ id: number; result: object; error?: { code: number; message: string } } | undefined> {
    const line = await this.#lines.next();
    return line.done === true ? undefined : (JSON.parse(line.value) as { id: number; result: object });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill("SIGKILL");
    await this.exited;
  }
}

export function readQuestion(params: object): { readonly message: string; readonly choices: readonly string[] } {
  const { message, requestedSchema } = params as {
    message: string;
    requestedSchema: { properties: { decision: { enum: readonly string[] } } };
  };
  return { message, choices: requestedSchema.properties.decision.enum };
}

export function decide(decision: string): object {
  return { action: "accept", content: { decision } };
}

/** Reads the text of a result, which must be the same as its structured content. */
export function readResult(result: object): ToolResult {
  const { content, structuredContent, isError } = result as {
    content: readonly { text: string }[];
    structuredContent: ToolResult;
    isError?: boolean;
  };
  const text = content[0]?.text ?? "";
  if (!text.startsWith('{"status":')) throw new Error(`not a result of a tool: ${text}`);
  if (JSON.stringify(structuredContent) !== text)
    throw new Error(`the structured content is another one: ${JSON.stringify(structuredContent)}`);
  if ((isError ?? false) !== (structuredContent.status === "error")) throw new Error(`isError is ${isError} in ${text}`);
  return structuredContent;
}

export function success(result: unknown): ToolResult {
  return { status: "success", result };
}
