/** One client of another project, connected with a sidecar. */
export interface ForeignClient extends AsyncDisposable {
  toolNames(): Promise<readonly string[]>;
  /** Returns the text of a tool's result. */
  toolText(name: string, args?: Readonly<Record<string, unknown>>): Promise<string>;
}

export interface ConnectOptions {
  /** True to declare the capability for elicitation, and to decline every one. */
  readonly elicits?: boolean;
}

export interface ForeignLibrary {
  readonly name: string;
  /** False if its users cannot declare capabilities for requests of the server. */
  readonly canElicit: boolean;
  /** The era that it chooses at a sidecar with both. */
  readonly era: "sessions" | "stateless";
  /** False if it leaves a call without an end when the stream of its response breaks off, at any server. */
  readonly resumes: boolean;
  readonly connect: (url: string, options?: ConnectOptions) => Promise<ForeignClient>;
}

export const DECLINED = { action: "decline" } as const;

/** Returns the text of the first block. @throws if there is none. */
export function firstText(result: unknown): string {
  const blocks = Array.isArray(result) ? (result as unknown[]) : (result as { readonly content?: unknown[] } | undefined)?.content;
  const { text } = (blocks?.[0] ?? {}) as { readonly text?: unknown };
  if (typeof text !== "string") throw new Error(`not a result with a text: ${JSON.stringify(result)}`);
  return text;
}
