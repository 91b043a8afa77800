import { writeFile } from "node:fs/promises";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JsonRpcMessage, messagesIn } from "../support/json-rpc.ts";
import type { ModernClient, ModernReply } from "../support/modern-client.ts";
import { ACCEPTED, ALL_QUESTIONS, elicitation, inputRequired, SAMPLED, sampling, UNKNOWN_STATE } from "../support/questions.ts";
import { failureOf } from "../support/failure.ts";
import { HttpBench } from "../support/http-bench.ts";
import { inProcessServer, signalServer, startObserved } from "../support/in-process-server.ts";
import type { StartProcess } from "../../src/process/child.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, tokenClients, TOKENS } from "../support/token-clients.ts";

const STORIES = 32;
/** The client of each actor. Three share one. */
const ACTORS = [0, 0, 0, 1];
const MAX_MOVES = 4;
const PARK_TIMEOUT_MS = 700;

/** Processes crash, and all of them may wait for answers. */
const EXPECTED_ERRORS: ReadonlySet<unknown> = new Set([
  "REQUEST_STATE_INVALID",
  "UPSTREAM_EXITED",
  "UPSTREAM_NOT_READY",
  "UPSTREAM_FAILED",
  "OVERLOADED",
]);

/** The reaction of a client to questions. */
const MOVES = ["answer", "answer one", "answer nothing", "answer twice", "other arguments", "answer and leave", "never come back"] as const;
type Move = (typeof MOVES)[number] | "crash";

/** A call: its questions, and the reaction to each round. */
interface Story {
  readonly kinds: readonly ("form" | "sampling")[];
  readonly isLate: boolean;
  readonly moves: readonly Move[];
}

function stories(withCrashes: boolean): fc.Arbitrary<Story[]> {
  const move = withCrashes ? fc.constantFrom<Move>(...MOVES, "crash") : fc.constantFrom<Move>(...MOVES);
  const story = fc.record({
    kinds: fc.array(fc.constantFrom("form" as const, "sampling" as const), { maxLength: 3 }),
    isLate: fc.boolean(),
    moves: fc.array(move, { minLength: MAX_MOVES, maxLength: MAX_MOVES }),
  });
  return fc.array(story, { minLength: STORIES, maxLength: STORIES });
}

/** The ends of a question, by its answers; or of a call, by its response and cancellations. */
interface Ends {
  readonly what: string;
  readonly count: number;
  readonly isTwice: boolean;
}

/** The text that a process has read and printed. */
type Traffic = { stdin: string; stdout: string };

/** One run of stories at the same time. Records what each process reads and prints. */
class Run implements AsyncDisposable {
  readonly sidecar: RunningSidecar;
  readonly violations: string[] = [];
  /** Resolves after the first replies. */
  readonly someReplies = Promise.withResolvers<void>();
  #replies = 0;
  readonly #directory: TempDir;
  readonly #clients: readonly ModernClient[];

  readonly #records: ReadonlyMap<number, Traffic>;

  private constructor(sidecar: RunningSidecar, directory: TempDir, records: ReadonlyMap<number, Traffic>) {
    this.sidecar = sidecar;
    this.#directory = directory;
    this.#records = records;
    this.#clients = tokenClients(sidecar, ALL_QUESTIONS);
  }

  static async start(directory: TempDir): Promise<Run> {
    const records = new Map<number, Traffic>();
    const startProcess: StartProcess = (command) =>
      startObserved(command, (pid, pipe, bytes) => {
        const record = records.get(pid) ?? { stdin: "", stdout: "" };
        record[pipe] += bytes.toString();
        records.set(pid, record);
      });
    const limits = ["--park-timeout-ms", String(PARK_TIMEOUT_MS), "--max-parked-calls", "32", "--max-private-servers", "16"];
    const flags = [...(await flagsForTokens(directory)), "--restart-backoff-ms", "10", ...limits];
    return new Run(await HttpBench.start({ startProcess, flags }), directory, records);
  }

  /** Plays the stories of one actor, one after another. */
  async playInTurn(client: number, actor: number, all: readonly Story[]): Promise<void> {
    for (const [number, story] of all.entries()) if (number % ACTORS.length === actor) await this.#play(client, story, number);
  }

  async #play(index: number, { kinds, isLate, moves }: Story, number: number): Promise<void> {
    const client = this.#clients[index];
    if (client === undefined) throw new Error("no client");
    const askAt = this.#directory.file("late");
    const questions = kinds.map((kind, position) => {
      const times = isLate && position > 0 ? { askAt } : {};
      const id = `${number}-${position}`;
      return kind === "form" ? elicitation(id, {}, times) : sampling(id, {}, times);
    });
    const send = (call: object = {}, other: object = {}): Promise<ModernReply> =>
      questions.length === 0 ? client.callTool("count", {}, call) : client.callTool("ask_all", { questions, ...other }, call);
    let reply = await send();
    if (++this.#replies === ACTORS.length) this.someReplies.resolve();
    for (const move of moves) {
      if (reply.result?.["resultType"] !== "input_required") break;
      const next = await this.#react(reply, move, send);
      if (next === undefined) return;
      reply = next;
    }
    this.#checkEnd(reply);
  }

  /** A call ends with a result, or with an error that says what has happened. */
  #checkEnd({ result, error }: ModernReply): void {
    const code = error?.data?.["code"];
    if (result === undefined && !EXPECTED_ERRORS.has(code)) this.violations.push(`ended with ${JSON.stringify(error)}`);
  }

  /** @returns undefined if the client leaves. */
  async #react(
    reply: ModernReply,
    move: Move,
    send: (call?: object, other?: object) => Promise<ModernReply>,
  ): Promise<ModernReply | undefined> {
    const { inputRequests, requestState } = inputRequired(reply);
    const entries = Object.entries(inputRequests).map(([key, { method }]) => [key, method === "elicitation/create" ? ACCEPTED : SAMPLED]);
    const call = { requestState, inputResponses: Object.fromEntries(entries) as object };
    switch (move) {
      case "answer":
        return send(call);
      case "answer one":
        return send({ ...call, inputResponses: Object.fromEntries(entries.slice(0, 1)) as object });
      case "answer nothing":
        return send({ requestState });
      case "answer twice": {
        const both = await Promise.all([send(call), send(call)]);
        const valid = both.filter((each) => !isUnknown(each));
        if (valid.length > 1) this.violations.push(`a state was valid twice: ${JSON.stringify(valid)}`);
        return valid[0] ?? both[0];
      }
      case "other arguments":
        if (!isUnknown(await send(call, { other: 1 }))) this.violations.push("a state was valid for other arguments");
        return send(call);
      case "answer and leave": {
        const left = new AbortController();
        const last = send({ ...call, signal: left.signal });
        setImmediate(() => left.abort());
        await last.catch(() => undefined);
        return undefined;
      }
      case "crash": {
        const pids = this.sidecar.logLines.filter(({ msg, lane }) => msg === "mcp server started" && lane !== undefined);
        const pid = Number(pids.at(-1)?.["childPid"]);
        if (inProcessServer(pid) !== undefined) signalServer(pid, "SIGKILL");
        return send(call);
      }
      case "never come back":
      default:
        return undefined;
    }
  }

  async releaseLate(): Promise<void> {
    await writeFile(this.#directory.file("late"), "");
  }

  /** Waits until nothing is parked, queued or in flight. A leak would never end. */
  async settle(): Promise<void> {
    for (;;) {
      const { stateless, lanes, memory } = await readStatus(this.sidecar, { Authorization: `Bearer ${TOKENS[0]}` });
      const loads = Object.values(lanes.asking);
      const isIdle = loads.every(({ requestsInFlight, waiting }) => requestsInFlight === 0 && waiting === 0);
      if (stateless?.asks?.parked.now === 0 && isIdle && memory["requests"] === 0) return;
    }
  }

  /** Checks what each process has read and printed: it answers or is told to cancel each call, and gets one response to each question. */
  checkProcesses(): void {
    if (this.#records.size === 0) this.violations.push("nothing was recorded");
    for (const [pid, record] of this.#records) {
      // One that has crashed may have read less.
      const isRunning = inProcessServer(pid) !== undefined;
      for (const { what, count, isTwice } of endsOf(record))
        if (isTwice || (isRunning && count === 0)) this.violations.push(`${count} ends of ${what} of ${pid}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sidecar[Symbol.asyncDispose]();
  }
}

/** Returns how often each question and each call of a process has ended. */
function endsOf(record: Traffic): readonly Ends[] {
  const [read, written] = [messagesIn(record.stdin), messagesIn(record.stdout)];
  const answersTo = (id: unknown, messages: readonly JsonRpcMessage[]): number =>
    messages.filter((message) => message.method === undefined && message.id === id).length;
  const questions = written.filter(({ method }) => method === "elicitation/create" || method === "sampling/createMessage");
  const calls = read.filter(({ method }) => method === "tools/call");
  return [
    ...questions.map(({ id }) => {
      const count = answersTo(id, read);
      return { what: `the question ${id}`, count, isTwice: count > 1 };
    }),
    ...calls.map(({ id }) => {
      const cancellations = read.filter(({ params }) => params?.["requestId"] === id).length;
      return { what: `the call ${id}`, count: answersTo(id, written) + cancellations, isTwice: cancellations > 1 };
    }),
  ];
}

function isUnknown(reply: ModernReply): boolean {
  return JSON.stringify(failureOf(reply)) === JSON.stringify(UNKNOWN_STATE);
}

describe.concurrent("questions, answers, retries and disconnects in any order", () => {
  it.each([
    { what: "", withCrashes: false },
    { what: " with crashes", withCrashes: true },
  ])("each question is answered once, each call ends, and nothing is left$what", async ({ withCrashes }) => {
    await fc.assert(
      fc.asyncProperty(stories(withCrashes), async (all) => {
        await using directory = await TempDir.create();
        await using run = await Run.start(directory);
        const played = ACTORS.map((client, actor) => run.playInTurn(client, actor, all));
        // A late call whose first question is refused does not reply before the release.
        await Promise.race([run.someReplies.promise, run.sidecar.waitForLog("server question refused")]);
        await run.releaseLate();
        await Promise.all(played);
        await run.settle();
        run.checkProcesses();
        expect(run.violations).toEqual([]);
      }),
      { numRuns: 2, endOnFailure: true },
    );
  });
});
