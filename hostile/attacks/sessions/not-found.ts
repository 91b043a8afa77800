// Checks that an id of a session is rejected like an unknown one.

import { randomUUID } from "node:crypto";
import type { HttpReply } from "../../../test/support/http-client.ts";
import type { Attack, Scene } from "../../attack.ts";
import type { Attacker } from "../../attacker.ts";

/** The key that all sidecars of these attacks have, unless an attack says otherwise. */
export const SESSION_KEY = "hostile-session-key-0123456789-0123456789";
export const KEY_ENVIRONMENT = { CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY };
export const PING = { jsonrpc: "2.0", id: "p", method: "ping" };
const AT_ONCE = 50;

export function session(name: string, run: (scene: Scene) => Promise<void>, setup: Partial<Attack> = {}): Attack {
  return { name: `session: ${name}`, environment: KEY_ENVIRONMENT, ...setup, run };
}

/** Does something for each item, for some of them at once. */
export async function forAll<Item>(items: readonly Item[], act: (item: Item) => Promise<void>, atOnce = AT_ONCE): Promise<void> {
  for (let at = 0; at < items.length; at += atOnce) await Promise.all(items.slice(at, at + atOnce).map(act));
}

interface ExpectOptions {
  readonly token?: string | undefined;
  /** Further methods that the first id is used with. */
  readonly methods?: readonly ("GET" | "DELETE")[];
}

/** Sends requests with these ids. Any response that differs from the one to an unknown id is a missed bar. */
export async function expectNotFound(
  attacker: Attacker,
  what: string,
  ids: readonly string[],
  { token = attacker.token, methods = ["GET", "DELETE"] }: ExpectOptions = {},
): Promise<void> {
  const unknown = await attacker.quietly(PING, { sessionId: randomUUID(), token });
  await forAll(ids, async (sessionId) => {
    const reply = await attacker.post(PING, { sessionId, token });
    if (unknown?.status === 404 && reply?.status === 404 && reply.body === unknown.body) return;
    addBreach(attacker, `${what}: ${sessionId}: ${reply?.status} ${reply?.body}, not ${unknown?.status} ${unknown?.body}`);
  });
  const [first] = ids;
  if (first === undefined) return;
  for (const method of methods) {
    const reply = await attacker.fetch(method, { sessionId: first, token });
    if (reply?.status !== 404) addBreach(attacker, `${what}: ${method} with ${first}: ${reply?.status} ${reply?.body}`);
  }
}

/** Calls a tool with these ids. Any response that is not its result is a missed bar. */
export async function expectServed(attacker: Attacker, what: string, ids: readonly string[]): Promise<void> {
  await forAll(ids, async (sessionId) => {
    const reply = await attacker.callTool("echo", { text: "of the attacker" }, { sessionId });
    if (reply?.status !== 200 || !reply.body.includes('"text":"of the attacker"')) {
      addBreach(attacker, `${what} not served: ${sessionId}: ${reply?.status} ${reply?.body}`);
    }
  });
}

/** Sends a ping with header fields that HTTP clients would not send. */
export async function pingRaw(attacker: Attacker, fields: readonly string[]): Promise<HttpReply | undefined> {
  const connection = await attacker.connect();
  if (connection === undefined) return undefined;
  const body = JSON.stringify(PING);
  const head = attacker.head([...fields, `Content-Length: ${body.length}`, "Connection: close"], { sessionId: "" });
  await connection.write(Buffer.from(head + body, "latin1")).catch(() => undefined);
  return attacker.hear(connection);
}

export function addBreach(attacker: Attacker, what: string): void {
  attacker.replies.breaches.push(what.slice(0, 600));
}
