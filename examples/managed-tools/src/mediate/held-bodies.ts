import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { Collected } from "./read-text.ts";

/** Of all agents together. The proxy needs some nine times as much memory for them. */
const MAX_BYTES = 64 * 1024 * 1024;
/** Of an agent: one body of the largest size, or many ordinary ones. */
const MAX_AGENT_BYTES = 32 * 1024 * 1024;

/** The bodies that are in memory, from their arrival until their responses have been sent. */
export class HeldBodies {
  readonly #ofAgents = new Map<string, number>();
  #bytes = 0;

  /** @returns the text of the body, or undefined if there is no room for it. Its declared length counts from the start. */
  async read(context: Context, agent: string): Promise<string | undefined> {
    const { body } = context.req.raw;
    const collected = new Collected();
    let held = 0;
    const hold = (bytes: number): boolean => {
      if (bytes > MAX_AGENT_BYTES - (this.#ofAgents.get(agent) ?? 0) || bytes > MAX_BYTES - this.#bytes) return false;
      held += bytes;
      this.#count(agent, bytes);
      return true;
    };
    (context.env as HttpBindings).outgoing.once("close", () => {
      this.#count(agent, -held);
      // What is read after that does not count: nothing would take it back.
      held = Infinity;
    });
    if (!hold(Number(context.req.header("content-length") ?? 0))) return undefined;
    if (body === null) return "";
    // Not `for await`, whose end would destroy the socket before the response.
    const reader = body.getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      if (collected.length + part.value.length > held && !hold(part.value.length)) return undefined;
      collected.add(part.value);
    }
    return collected.toString();
  }

  #count(agent: string, bytes: number): void {
    this.#bytes += bytes;
    const ofAgent = (this.#ofAgents.get(agent) ?? 0) + bytes;
    if (ofAgent === 0) this.#ofAgents.delete(agent);
    else this.#ofAgents.set(agent, ofAgent);
  }
}
