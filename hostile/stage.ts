// One attack on one sidecar, with an observer.

import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../chaos/random.ts";
import { ServerProcesses } from "../chaos/server-processes.ts";
import { WrapperProcess } from "../chaos/wrapper-process.ts";
import type { Attack } from "./attack.ts";
import { Attacker } from "./attacker.ts";
import { within } from "./bounded.ts";
import type { Observation } from "./contract.ts";
import { Observer } from "./observer/observer.ts";
import { BYSTANDER_TOKEN, OTHER_TOKENS, sidecarUnderAttack, TOKEN } from "./sidecar.ts";
import { ReplyCounts } from "./reply-counts.ts";

/** Time for which only the bystander sends calls, until the effects of the start are over. */
const WARM_UP_MS = 300;
/** The time limit of an attack. */
const ATTACK_LIMIT_MS = 45_000;
const END_NEWS_MS = 2000;
const PROCESS_GRACE_MS = 5000;

export interface Result {
  readonly attack: Attack;
  readonly replies: string;
  readonly breaches: readonly string[];
  /** The exit of the sidecar; undefined if it still runs. */
  readonly end: string | undefined;
  readonly unhandledErrors: readonly string[];
  readonly processesLeft: number;
  readonly wasCutOff: boolean;
  readonly observation: Observation;
  /** The peak of memory under an ordinary load; undefined if it was not measured in this run. */
  readonly basePeakBytes?: number | undefined;
}

export async function stage(attack: Attack, random: Random, logFile?: string): Promise<Result> {
  using servers = new DisposableServers();
  const { directory } = servers;
  const wrapper = await WrapperProcess.start(sidecarUnderAttack(attack), directory, logFile);
  const replicas: WrapperProcess[] = [];
  const ended = new AbortController();
  try {
    const url = wrapper.endpoint.url.href;
    const { pid, origin } = wrapper;
    const isStateless = attack.isStateless === true;
    using observer = await Observer.start({ url, origin, token: BYSTANDER_TOKEN, pid, isStateless, seed: random.integer(1, 1e9) });
    await sleep(WARM_UP_MS);
    const replies = new ReplyCounts();
    const attacker = new Attacker(url, origin, TOKEN, replies, ended.signal);
    const others = OTHER_TOKENS.map((token) => new Attacker(url, origin, token, replies, ended.signal));
    const running = attack.run({
      attacker,
      others,
      random,
      setSwitch: (name, text) => writeFileSync(join(directory, name), text),
      removeSwitch: (name) => rmSync(join(directory, name), { force: true }),
      startReplica: async (setup = {}) => {
        const replica = await WrapperProcess.start(sidecarUnderAttack({ ...attack, ...setup }), directory, logFile);
        replicas.push(replica);
        return (token = TOKEN) => new Attacker(replica.endpoint.url.href, replica.origin, token, replies, ended.signal);
      },
      countServers: () => servers.running().filter(({ kind }) => kind === "server").length,
    });
    const wasCutOff =
      (await within(
        running.then(() => true),
        ATTACK_LIMIT_MS,
      )) !== true;
    // An error of the attack itself is a fault of the harness.
    if (!wasCutOff) await running;
    const observation = await observer.report();
    ended.abort();
    // The event of an exit may be later than its effect on connections.
    if (!observation.isServedAfterwards) await sleep(END_NEWS_MS);
    const end = [wrapper, ...replicas].find(({ endedByItself }) => endedByItself !== undefined)?.endedByItself;
    await endAll([wrapper, ...replicas]);
    const left = await servers.left(PROCESS_GRACE_MS);
    const unhandledErrors = await wrapper.unhandledErrors();
    return {
      attack,
      replies: replies.toString(),
      breaches: replies.breaches,
      end,
      unhandledErrors,
      processesLeft: left.length,
      wasCutOff,
      observation,
    };
  } finally {
    ended.abort();
    await endAll([wrapper, ...replicas]);
  }
}

async function endAll(wrappers: readonly WrapperProcess[]): Promise<void> {
  await Promise.all(wrappers.map((wrapper) => wrapper.end()));
}

/** Deletes the directory in all cases. */
class DisposableServers extends ServerProcesses implements Disposable {
  [Symbol.dispose](): void {
    this.remove();
  }
}
