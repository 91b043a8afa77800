import { fileURLToPath } from "node:url";
import { ModernSdkClient } from "../../../test/support/modern-sdk-client.ts";
import { InteropClient } from "../../../test/support/sdk-clients.ts";
import { Sidecar } from "../../../test/support/sidecar.ts";
import type { Phone, StartPhone } from "./phone.ts";

export const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const POLL_MS = 50;
const WAIT_TIMEOUT_MS = 120_000;

export interface Result {
  readonly text: string;
  readonly isError: boolean;
  readonly structured: unknown;
}

interface Listed {
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly inputSchema: unknown;
  readonly annotations?: unknown;
}

/** The bridge behind a sidecar, with a phone and a client of each era. */
export class Bridge implements AsyncDisposable {
  readonly phone: Phone;
  readonly sidecar: Sidecar;
  readonly #client: ModernSdkClient;

  private constructor(phone: Phone, sidecar: Sidecar, client: ModernSdkClient) {
    [this.phone, this.sidecar, this.#client] = [phone, sidecar, client];
  }

  static async start(startPhone: StartPhone, apps: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Bridge> {
    const phone = await startPhone(apps);
    const sidecar = await Sidecar.start({
      command: [process.execPath, MAIN],
      flags: ["--child-era", "modern"],
      env: { REFRESH_MS: "400", ...phone.env, ...env },
    });
    return new Bridge(phone, sidecar, await ModernSdkClient.connect(sidecar.url, "pinned"));
  }

  async tools(): Promise<Listed[]> {
    return (await this.#client.listTools()).tools;
  }

  async names(): Promise<string[]> {
    return (await this.tools()).map(({ name }) => name);
  }

  /** Calls without a session, as a client that cannot be asked. */
  async call(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<Result> {
    return resultOf(await this.#client.callTool({ name, arguments: args }));
  }

  /** Waits until the list of tools is as expected. */
  async waitForTools(isExpected: (names: readonly string[]) => boolean): Promise<string[]> {
    const deadlineMs = performance.now() + WAIT_TIMEOUT_MS;
    for (;;) {
      const names = await this.names();
      if (isExpected(names)) return names;
      if (performance.now() > deadlineMs) throw new Error(`the tools are ${names.join(", ")}:\n${this.log.join("\n")}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** The lines that the bridge has written to stderr. */
  get log(): string[] {
    return this.sidecar.logLines
      .flatMap((line) => Object.values(line).filter((value) => String(value).startsWith("cetp-bridge: ")))
      .map(String);
  }

  /** Waits for a line of the bridge, past or future. */
  async waitForLine(part: string): Promise<string> {
    return this.sidecar.waitFor(() => this.log.find((line) => line.includes(part)), `the line "${part}"`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
    await this.sidecar[Symbol.asyncDispose]();
    await this.phone[Symbol.asyncDispose]();
  }
}

function resultOf(result: {
  readonly content: readonly object[];
  readonly isError?: boolean | undefined;
  readonly structuredContent?: unknown;
}): Result {
  const [first] = result.content as readonly { readonly text?: string }[];
  return { text: first?.text ?? "", isError: result.isError === true, structured: result.structuredContent };
}

/** Clients that let their user be asked: one with a session, and one without. */
export const ASKED_CLIENTS = {
  "with a session": async (url: string, answer: (question: Params) => object) => {
    const client = await InteropClient.connect("v1", url, { answer: ({ params }) => answer(params) });
    return {
      call: async (name: string) => resultOf(await client.callTool(name)),
      [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
    };
  },
  "without a session": async (url: string, answer: (question: Params) => object) => {
    const client = await ModernSdkClient.connect(url, "pinned", { elicitation: {} });
    client.setRequestHandler("elicitation/create", ({ params }) => answer(params as unknown as Params) as { action: "accept" });
    return {
      call: async (name: string) => resultOf(await client.callTool({ name, arguments: {} })),
      [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
    };
  },
};

type Params = Readonly<Record<string, unknown>>;
