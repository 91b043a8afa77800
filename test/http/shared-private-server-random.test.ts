import * as fc from "fast-check";
import { readFile, writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, vi } from "vitest";
import type { EventStream } from "../support/event-stream.ts";
import { HttpBench } from "../support/http-bench.ts";
import { inProcessServer, startObserved } from "../support/in-process-server.ts";
import { type JsonRpcMessage, messagesIn } from "../support/json-rpc.ts";
import { ASKABLE, initializeRequest, McpClient } from "../support/mcp-client.ts";
import { SEED } from "../support/set-up.ts";
import { type Status, readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS } from "../support/token-clients.ts";

/** `FUZZ_RUNS=200 TEST_SEED=7 vitest run …` runs for longer, or with another seed. */
const LIVES = Number(process.env["FUZZ_RUNS"] ?? 20);
const EARLY = ["asks-at-initialize/200", "asks-at-initialized/0", "asks-at-initialized/350"] as const;
const KINDS = [...EARLY, "in the first's call", "in another's call", "in the background", "after a restart", "never"] as const;
const AMPLE = "200";
/** Only a hang takes so long. */
const WAIT = { timeout: 100_000, interval: 20 };
const SESSION_KEY = "a-session-key-of-two-replicas-0123456789";

/** Mostly the first value. */
function mostly<Value>(...values: readonly [Value, ...Value[]]): fc.Arbitrary<Value> {
  return fc.oneof({ weight: 5, arbitrary: fc.constant(values[0]) }, { weight: 3, arbitrary: fc.constantFrom(...values) });
}

const session = fc.record({
  token: fc.nat({ max: 1 }),
  capabilities: mostly<object>(ASKABLE, { roots: {} }, { sampling: {} }, {}, { ...ASKABLE, experimental: { x: {} } }),
  revision: mostly("2025-11-25", "2025-06-18"),
  arrivalMs: fc.nat({ max: 1500 }),
  callsMs: fc.array(fc.nat({ max: 300 }), { maxLength: 3 }),
  listens: fc.boolean(),
  leaves: mostly(false, true),
  isOfReplica: mostly(false, true),
});
const life = fc.record({
  asks: fc.constantFrom(...KINDS),
  atMs: fc.nat({ max: 1500 }),
  isSpread: fc.boolean(),
  tokens: fc.integer({ min: 1, max: 2 }),
  maxServers: mostly(AMPLE, "3"),
  sessions: fc.oneof(
    { weight: 5, arbitrary: fc.array(session, { minLength: 2, maxLength: 12 }) },
    { weight: 1, arbitrary: fc.array(session, { minLength: 80, maxLength: 100 }) },
  ),
});
type Plan<Of> = Of extends fc.Arbitrary<infer Value> ? Value : never;

/** A client with one session, which answers all questions. Its nonces begin with its name. */
class Actor {
  readonly name: string;
  readonly plan: Plan<typeof session>;
  readonly client: McpClient;
  readonly asked: string[] = [];
  readonly #violations: string[];
  #calls = 0;
  #hasEnded = false;

  constructor(url: string, name: string, plan: Plan<typeof session>, violations: string[]) {
    [this.name, this.plan, this.#violations] = [name, plan, violations];
    this.client = new McpClient(url, { token: TOKENS[Number(name[0])] });
  }

  async open(): Promise<boolean> {
    const { result } = await this.send(initializeRequest(this.plan.capabilities, this.plan.revision));
    return result !== undefined && (await this.client.notify("notifications/initialized")).status === 202;
  }

  call(tool: string, args: object = {}): Promise<JsonRpcMessage> {
    const nonce = `${this.name} ${++this.#calls}`;
    const named = { ...args, text: nonce, id: nonce, method: "roots/list", params: { nonce } };
    return this.send({ id: nonce, method: "tools/call", params: { name: tool, arguments: named } });
  }

  /** Opens a stream. Opens it again whenever it has ended, until the session ends. */
  async listen(): Promise<void> {
    const stream = await this.client.openStream().catch(() => undefined);
    const again = (): unknown => this.#hasEnded || sleep(20).then(() => this.listen());
    void this.#read(stream).then(again, again);
  }

  end(): Promise<unknown> {
    this.#hasEnded = true;
    return this.client.end();
  }

  /** Notes if there is not exactly one response: a result, or an error that says what has happened. */
  async send(request: object): Promise<JsonRpcMessage> {
    const stream = await this.client.postForStream({ jsonrpc: "2.0", ...request });
    this.client.sessionId ||= String(stream.headers["mcp-session-id"] ?? "");
    const messages = stream.isStream ? await this.#read(stream) : [JSON.parse(await stream.body()) as JsonRpcMessage];
    const [answer = { jsonrpc: "" }, ...more] = messages.filter(({ method }) => method === undefined);
    if (more.length > 0 || (answer.result === undefined && typeof answer.error?.data?.["code"] !== "string"))
      this.#violations.push(`responses to ${JSON.stringify(request)}: ${JSON.stringify([answer, ...more])}`);
    return answer;
  }

  async #read(stream: EventStream | undefined): Promise<JsonRpcMessage[]> {
    const messages: JsonRpcMessage[] = [];
    for (let text = await stream?.nextText(); text !== undefined; text = await stream?.nextText()) {
      const message = JSON.parse(text) as JsonRpcMessage;
      messages.push(message);
      if (message.method !== "roots/list") continue;
      this.asked.push(String(message.params?.["nonce"]));
      void this.client.answer(message, { roots: [] });
    }
    return messages;
  }
}

/** What a process has read and printed. */
class Traffic {
  readonly pid: number;
  stdin = "";
  stdout = "";

  constructor(pid: number) {
    this.pid = pid;
  }

  /** The revision and the capabilities of its handshake. */
  get offer(): string {
    const { protocolVersion, capabilities } = messagesIn(this.stdin)[0]?.params ?? {};
    return JSON.stringify([protocolVersion, capabilities]);
  }

  /** The names of the sessions that have used it. */
  get users(): string[] {
    const nonces = this.stdin.replaceAll("\\", "").matchAll(/"method":"(?:tools\/call|notifications\/x-write)".*?"nonce":"(\S+) /g);
    return [...new Set(nonces.map(([, name = ""]) => name))];
  }

  /** The questions that it has printed, with the responses that it has read. */
  get questions(): Map<string, JsonRpcMessage[]> {
    const responses = messagesIn(this.stdin).filter(({ method }) => method === undefined);
    const asked = messagesIn(this.stdout).filter(({ method }) => method === "roots/list");
    return new Map(asked.map(({ id }) => [String(id), responses.filter((each) => each.id === id)]));
  }

  /** The questions of a running process that wait. */
  get unanswered(): string[] {
    const open = [...this.questions].filter(([, { length }]) => length === 0).map(([id]) => id);
    return inProcessServer(this.pid) === undefined ? [] : open;
  }
}

async function live({ asks, atMs, isSpread, tokens, maxServers, sessions }: Plan<typeof life>): Promise<string[]> {
  const violations: string[] = [];
  const traffic = new Map<number, Traffic>();
  await using directory = await TempDir.create();
  const [ledger, gate] = [directory.file("ledger"), directory.file("gate")];
  await writeFile(ledger, "");
  const env = {
    FIXTURE_LEDGER: ledger,
    FIXTURE_GATE: gate,
    FIXTURE_NEXT_MODE: "asks-at-initialized/0",
    CLAW_MCP_STDIO_SESSION_KEY: SESSION_KEY,
  };
  const flags = [...(await flagsForTokens(directory)), "--restart-backoff-ms", "10", "--max-private-servers", maxServers];
  await using replica = await HttpBench.start({ flags, env });
  await using sidecar = await HttpBench.start({
    startProcess: (command) =>
      startObserved(command, (pid, pipe, bytes) => {
        const own = traffic.get(pid) ?? new Traffic(pid);
        traffic.set(pid, own);
        own[pipe] += bytes.toString();
      }),
    flags,
    env,
    mode: asks.startsWith("asks-at") ? asks : "normal",
  });
  const actors = sessions.map((plan, index) => {
    const { url } = plan.isOfReplica ? replica : sidecar;
    return new Actor(url, `${plan.token % tokens}/${index}`, plan, violations);
  });
  const [first, second] = actors;
  const act = async (actor: Actor): Promise<void> => {
    if (asks === "in the first's call" && actor === first) await actor.call("ask");
    if (asks === "in another's call" && actor === second) await actor.call("ask");
    const nonce = `${actor.name} x`;
    const line = JSON.stringify({ jsonrpc: "2.0", id: nonce, method: "roots/list", params: { nonce } });
    if (asks === "in the background" && actor === second) await actor.client.notify("notifications/x-write", { line });
    if (asks !== "after a restart" || actor !== first) return;
    await writeFile(gate, "");
    await actor.call("kill");
  };
  const play = async (actor: Actor): Promise<Actor[]> => {
    const { arrivalMs, callsMs, listens, leaves, isOfReplica } = actor.plan;
    const isOpenThere = isOfReplica && (await actor.open());
    actor.client.url = sidecar.url;
    if (isSpread) await sleep(arrivalMs);
    if (!isOpenThere && !(await actor.open())) {
      if (maxServers === AMPLE) violations.push(`${actor.name} got no session`);
      return [];
    }
    if (listens) await actor.listen();
    const acting = sleep(atMs).then(() => act(actor));
    const calling = callsMs.map((delayMs) => actor.call("record", { delayMs }));
    const isLeaving = leaves && asks !== "never";
    if (isLeaving) await actor.end();
    await Promise.all([acting, ...calling]);
    return isLeaving ? [] : [actor];
  };
  const staying = (await Promise.all(actors.map(play))).flat();
  // Each session goes on, whatever has happened to its server.
  await Promise.all(staying.filter(({ plan }) => !plan.listens).map((actor) => actor.listen()));
  const last = await Promise.all(staying.map((actor) => actor.call("record")));
  const lost = last.filter(({ result }) => result === undefined);
  if (maxServers === AMPLE && lost.length > 0) violations.push(`sessions that do not go on: ${JSON.stringify(lost)}`);
  await vi.waitFor(() => expect([...traffic.values()].flatMap(({ unanswered }) => unanswered)).toEqual([]), WAIT);
  await Promise.all(staying.map((actor) => actor.end()));
  const status = (): Promise<Status> => readStatus(sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
  await vi.waitFor(async () => expect(await status()).toMatchObject({ sessions: 0, lanes: { private: { servers: 0 } } }), WAIT);
  const executed = (await readFile(ledger, "utf8")).split("\n").slice(0, -1);
  if (new Set(executed).size < executed.length) violations.push(`executed twice: ${executed.toSorted().join()}`);
  check(asks, actors, [...traffic.values()], violations);
  return violations;
}

function check(asks: string, actors: readonly Actor[], processes: readonly Traffic[], violations: string[]): void {
  const offered = processes.filter(({ offer }) => /roots|sampling/.test(offer));
  const everAsked = actors.flatMap(({ asked }) => asked);
  if (new Set(everAsked).size < everAsked.length) violations.push(`asked twice: ${everAsked.join()}`);
  for (const { users, questions, stdin } of offered) {
    const afterRefusal = stdin.slice(/\n.*"error":/.exec(stdin)?.index ?? stdin.length);
    if (afterRefusal.includes('"tools/call"')) violations.push(`calls after a refused question: ${afterRefusal}`);
    if (new Set(users.map((name) => name[0])).size > 1) violations.push(`one process for two principals: ${users.join()}`);
    for (const [id, [answer, another]] of questions) {
      const isLost = everAsked.includes(id) && answer?.error !== undefined;
      if (another !== undefined || isLost) violations.push(`answers to ${id}: ${JSON.stringify([answer, another])}`);
    }
  }
  for (const { name, asked } of actors) {
    for (const nonce of asked) {
      const users = offered.find(({ questions }) => questions.has(nonce))?.users ?? ["nobody"];
      if (users.some((user) => user !== name)) violations.push(`${name} was asked by a process of ${users.join()}`);
    }
  }
  const kinds = offered.map(({ offer, users }) => `${users[0]?.[0]} ${offer}`);
  if (asks === "never" && new Set(kinds).size < kinds.length) violations.push(`several processes for one kind: ${kinds.join()}`);
}

describe.concurrent("sessions that share a private server, and a server that asks at any time", () => {
  const lives = fc.sample(life, { numRuns: LIVES, seed: SEED }).map((plan, number) => ({ number, plan }));
  it.each(lives)("each question is for one session, each request is answered, and nothing is left: life $number", async ({ plan }) => {
    expect(await live(plan)).toEqual([]);
  });
});
