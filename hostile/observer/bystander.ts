// A client that is not involved in the attack. It calls a tool continuously, and checks that each response is its own.

import { setTimeout as sleep } from "node:timers/promises";
import { Agent } from "node:http";
import { type HttpReply, send } from "../../test/support/http-client.ts";
import { readMessages } from "../../test/support/json-rpc.ts";
import { McpClient } from "../../test/support/mcp-client.ts";
import { ModernClient } from "../../test/support/modern-client.ts";
import { BYSTANDER_MARK, type CallCounts, type Watched } from "../contract.ts";

/** The delays of concurrent calls. Some respond late, so that a wrong response can match a pending call. */
const DELAYS_MS = [0, 15, 40, 40];
const PAUSE_MS = 10;
/** Longer than any attack may take. */
const LOST_AFTER_MS = 30_000;
const MAX_EXAMPLES = 5;

type PostCall = (id: string | number, args: object, options: { readonly signal: AbortSignal; readonly agent: Agent }) => Promise<HttpReply>;
type Outcome = "ok" | "crossed" | "lost" | { readonly refused: string };

export class Bystander {
  readonly #post: PostCall;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #seed: number;
  readonly #refused = new Map<string, number>();
  readonly #examples: string[] = [];
  readonly #ended = new AbortController();
  readonly #pending = new Set<Promise<void>>();
  #ok = 0;
  #lost = 0;
  #crossed = 0;
  #count = 0;
  #isCalling = true;

  private constructor(post: PostCall, seed: number) {
    this.#post = post;
    this.#seed = seed;
    for (const delayMs of DELAYS_MS) this.#pending.add(this.#keepCalling(delayMs));
  }

  static async open({ url, token, isStateless, seed }: Watched): Promise<Bystander> {
    return new Bystander(isStateless ? statelessCalls(url, token) : await sessionCalls(url, token), seed);
  }

  counts(): CallCounts {
    return {
      ok: this.#ok,
      refused: Object.fromEntries(this.#refused),
      lost: this.#lost,
      crossed: this.#crossed,
      examples: this.#examples,
    };
  }

  /** Sends calls until one gets a right response. @returns false if this takes longer than `limitMs`. */
  async isServed(limitMs: number): Promise<boolean> {
    const deadlineMs = performance.now() + limitMs;
    while (performance.now() < deadlineMs && this.#isCalling) {
      if ((await this.#call(0, AbortSignal.timeout(Math.ceil(Math.max(1, deadlineMs - performance.now()))))) === "ok") return true;
      await sleep(PAUSE_MS);
    }
    return false;
  }

  /** Stops sending calls. Must be called when the sidecar has exited. */
  giveUp(): void {
    this.#isCalling = false;
  }

  /** Stops sending calls, and waits up to `limitMs` for the responses. */
  async stop(limitMs: number): Promise<void> {
    this.#isCalling = false;
    const timer = setTimeout(() => this.#ended.abort(), limitMs);
    await Promise.all(this.#pending);
    clearTimeout(timer);
    this.#agent.destroy();
  }

  async #keepCalling(delayMs: number): Promise<void> {
    while (this.#isCalling) {
      const outcome = await this.#call(delayMs, AbortSignal.any([this.#ended.signal, AbortSignal.timeout(LOST_AFTER_MS)]));
      if (outcome === "ok") this.#ok++;
      else if (outcome === "lost") this.#lost++;
      else if (outcome === "crossed") this.#crossed++;
      else this.#refused.set(outcome.refused, (this.#refused.get(outcome.refused) ?? 0) + 1);
      await sleep(PAUSE_MS);
    }
  }

  async #call(delayMs: number, signal: AbortSignal): Promise<Outcome> {
    const number = ++this.#count;
    const id = number % 2 === 0 ? number : `call ${number}`;
    const text = `${BYSTANDER_MARK} ${this.#seed} ${number} – größer`;
    try {
      const reply = await this.#post(id, { text, delayMs }, { signal, agent: this.#agent });
      const outcome = judge(reply, id, text);
      if (outcome === "crossed" || outcome === "lost") this.#keep(outcome, id, `${reply.status} ${reply.body}`);
      return outcome;
    } catch (error) {
      this.#keep("lost", id, error instanceof Error ? `${error.name}: ${error.message}` : String(error));
      return "lost";
    }
  }

  #keep(outcome: string, id: string | number, detail: string): void {
    if (this.#examples.length < MAX_EXAMPLES) this.#examples.push(`${outcome}: ${id}: ${detail.slice(0, 300)}`);
  }
}

async function sessionCalls(url: string, token: string): Promise<PostCall> {
  const client = await new McpClient(url, { token }).open();
  return (id, args, options) =>
    client.post({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: args } }, options);
}

function statelessCalls(url: string, token: string): PostCall {
  const client = new ModernClient(url, { token });
  return (id, args, options) => send(url, { ...client.compose("tools/call", { name: "echo", arguments: args }, { id }), ...options });
}

function judge(reply: HttpReply, id: string | number, text: string): Outcome {
  if (reply.body === "") return "lost";
  const messages = readMessages(reply);
  // No call asks for progress or log messages, and a forged notification is not its own.
  if (messages.some(({ params }) => params?.["_meta"] !== undefined)) return "crossed";
  const answers = messages.filter(({ method }) => method === undefined);
  const [answer] = answers;
  if (answer === undefined) return "lost";
  // A request that is rejected before it is read gets an error without an id.
  const isOwn = answer.id === id || (answer.id === undefined && answer.error !== undefined);
  if (answers.length > 1 || !isOwn) return "crossed";
  if (answer.result !== undefined) return answer.result.content?.[0]?.text === text ? "ok" : "crossed";
  const code = answer.error?.data?.["code"];
  return typeof code === "string" ? { refused: code } : "crossed";
}
