import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Changes } from "./changes.ts";
import { MODERN_VERSION } from "./modern-client.ts";

/** `pinned` fails if the endpoint does not serve the revision; `auto` begins a session then. */
export const NEGOTIATIONS = ["pinned", "auto"] as const;
type Negotiation = (typeof NEGOTIATIONS)[number];

interface Heard {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
}

/** The official client of 2026-07-28 over Streamable HTTP, exactly as an application would use it. It only records its traffic. */
export class ModernSdkClient extends Client implements AsyncDisposable {
  readonly sent: string[] = [];
  readonly heard: Heard[] = [];
  readonly errors: Error[] = [];
  override readonly onerror = (error: Error): void => void this.errors.push(error);
  readonly #changes = new Changes();

  private constructor(negotiation: Negotiation, capabilities: object) {
    super(
      { name: "interop", version: "1.0.0" },
      { capabilities, versionNegotiation: { mode: negotiation === "auto" ? "auto" : { pin: MODERN_VERSION } } },
    );
    this.fallbackNotificationHandler = (notification): Promise<void> => {
      const { method, params = {} } = notification as { method: string; params?: Readonly<Record<string, unknown>> };
      this.heard.push({ method, params });
      this.#changes.notify();
      return Promise.resolve();
    };
  }

  /** @param capabilities the capabilities that it declares; none by default. */
  static async connect(url: string, negotiation: Negotiation, capabilities: object = {}): Promise<ModernSdkClient> {
    const client = new ModernSdkClient(negotiation, capabilities);
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch: (target, init) => client.#fetch(target, init) }));
    return client;
  }

  async toolText(name: string, args: Readonly<Record<string, unknown>> = {}): Promise<string> {
    const result = await this.callTool({ name, arguments: args });
    const [first] = result.content;
    if (first?.type !== "text" || result.isError === true) throw new Error(`${name}: ${JSON.stringify(result)}`);
    return first.text;
  }

  async waitToHear(method: string): Promise<Heard["params"]> {
    return (await this.#changes.until(() => this.heard.find((each) => each.method === method), method)).params;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #fetch(target: string | URL, init?: RequestInit): Promise<Response> {
    const method = typeof init?.body === "string" ? (JSON.parse(init.body) as { method?: string }).method : undefined;
    this.sent.push([init?.method ?? "GET", method].join(" ").trim());
    return fetch(target, init);
  }
}
