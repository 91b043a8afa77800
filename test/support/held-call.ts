import type { EventStream } from "./event-stream.ts";
import { waitForHanging } from "./fixture-server.ts";
import { type McpClient, toolCall } from "./mcp-client.ts";

export interface HeldCallOptions {
  readonly id?: string | number;
  /** null: no progress token. */
  readonly token?: string | number | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A call that the server holds. The test decides its progress and response. */
export class HeldCall {
  readonly id: string | number;
  /** The id that the server knows. */
  readonly wireId: number;
  /** Resolves when the response begins. */
  readonly stream: Promise<EventStream>;
  readonly #control: McpClient;

  private constructor(control: McpClient, id: string | number, wireId: number, stream: Promise<EventStream>) {
    this.#control = control;
    this.id = id;
    this.wireId = wireId;
    this.stream = stream;
  }

  /** @param control makes the server write lines; any session on the same server will do. */
  static async start(client: McpClient, control: McpClient, { id = 7, token = "mine", headers }: HeldCallOptions = {}): Promise<HeldCall> {
    const before = await waitForHanging(control, 0);
    const stream = client.postForStream(toolCall("hang", {}, id, token === null ? undefined : { progressToken: token }), headers);
    // If the call is never answered, its error does not matter.
    stream.catch(() => undefined);
    const hanging = await waitForHanging(control, before.length + 1);
    return new HeldCall(control, id, hanging.at(-1) ?? -1, stream);
  }

  /** Makes the server show progress, which has left the server when this resolves. */
  async progress(...steps: readonly number[]): Promise<void> {
    const lines = steps.map((progress) =>
      JSON.stringify({ jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: this.wireId, progress } }),
    );
    await say(this.#control, ...lines);
  }

  async answer(text = "done"): Promise<void> {
    await say(this.#control, JSON.stringify({ jsonrpc: "2.0", id: this.wireId, result: { content: [{ type: "text", text }] } }));
  }
}

/** Makes the server write these lines, which have left it when this resolves. */
export async function say(control: McpClient, ...lines: readonly string[]): Promise<void> {
  await control.toolText("noise", { line: lines.join("\n") });
}

/** Returns the progress notification that the call's client reads. */
export function progressOf(progress: number, token: string | number = "mine"): object {
  return { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: token, progress } };
}

/** Returns the response that the call's client reads. */
export function answerOf(text = "done", id: string | number = 7): object {
  return { jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } };
}
