import { describe, expect, it } from "vitest";
import { SidecarError } from "../../src/mcp/errors.ts";
import type { HeldRequest } from "../../src/server/calls.ts";
import type { Principal, Session } from "../../src/session/session.ts";
import { LanesBench, type LanesInput } from "./support/lanes-bench.ts";
import { type MemoryAccount, MemoryBudget } from "../../src/memory.ts";
import { AMPLE_MEMORY } from "./support/memory.ts";

const PRIVATE = { capabilities: { sampling: {} } };
const SHARED = { capabilities: {} };

interface Returning {
  readonly memory?: MemoryAccount;
  readonly text?: string;
  readonly owner?: Principal;
}

class Replicas {
  readonly one = new LanesBench();
  readonly other: LanesBench;

  constructor(input: LanesInput = {}) {
    this.other = new LanesBench({ ...input, ids: this.one.ids });
  }

  /** Opens a session at the first replica. @returns its id. */
  open(params: object): string {
    const { session } = this.one.connect(params as never);
    this.one.servers.at(-1)?.bench.start();
    return session()?.id ?? "";
  }

  takeUp(
    id: string,
    { memory = AMPLE_MEMORY.account("127.0.0.1"), text = "", owner }: Returning = {},
  ): { readonly taken: () => Session | SidecarError | undefined; readonly leave: () => void } {
    let taken: Session | SidecarError | undefined;
    const reply: HeldRequest["reply"] = { acceptedAtMs: Date.now(), onDisconnect: undefined };
    const known = this.other.opener.recognize(id, undefined);
    if (known === undefined) throw new Error("the session is unknown");
    this.other.opener.takeUp({ ...known, owner }, memory, reply, [{ kind: "request", text }], (found) => (taken = found));
    return { taken: () => taken, leave: () => reply.onDisconnect?.() };
  }

  refusalOf(id: string, client?: Returning): string | undefined {
    const taken = this.takeUp(id, client).taken();
    return taken instanceof SidecarError ? taken.code : undefined;
  }
}

describe("a session that returns", () => {
  it("a session of the shared server is open at once, and again the same object", () => {
    const replicas = new Replicas();
    const id = replicas.open(SHARED);
    const session = replicas.takeUp(id).taken();
    expect(session).toMatchObject({ id, protocolVersion: "2025-11-25" });
    expect([replicas.takeUp(id).taken() === session, replicas.other.sessions.size, replicas.other.servers]).toEqual([true, 1, []]);
  });

  it("a full replica and a draining one take no session up, and the session stays valid", () => {
    const replicas = new Replicas({ maxSessions: 1 });
    const [first, second] = [replicas.open(SHARED), replicas.open(SHARED)];
    (replicas.takeUp(first).taken() as Session).beginCall();
    expect(replicas.refusalOf(second)).toBe("TOO_MANY_SESSIONS");
    replicas.other.drain();
    expect([replicas.refusalOf(second), replicas.other.opener.recognize(second, undefined)?.id]).toEqual(["SHUTTING_DOWN", second]);
  });

  it("a session whose token was removed while its request arrived is not taken up", () => {
    const replicas = new Replicas();
    const owner = { isRevoked: true, name: "token-1", fingerprint: "x", sessionKey: undefined };
    expect(replicas.refusalOf(replicas.open(SHARED), { owner })).toBe("SESSION_NOT_FOUND");
    expect(replicas.other.sessions.size).toBe(0);
  });
});

describe("a session that returns before the era of the shared server is known", () => {
  it("a client that can be asked waits for it, and then shares a server without sessions", () => {
    const replicas = new Replicas({ childEra: "auto", isStarted: false });
    const [asking, plain] = [replicas.open(PRIVATE), replicas.open(SHARED)];
    const [first, second] = [replicas.takeUp(asking), replicas.takeUp(asking)];
    expect([first.taken(), replicas.takeUp(plain).taken() instanceof SidecarError]).toEqual([undefined, false]);
    replicas.other.shared.start({}, "2026-07-28", "modern");
    expect(first.taken()).toMatchObject({ id: asking });
    expect([second.taken() === first.taken(), replicas.other.servers]).toEqual([true, []]);
  });

  it("a session that is ended meanwhile is not opened", () => {
    const replicas = new Replicas({ childEra: "auto", isStarted: false });
    const id = replicas.open(PRIVATE);
    const { taken } = replicas.takeUp(id);
    const known = replicas.other.opener.recognize(id, undefined);
    if (known !== undefined) replicas.other.opener.end(known);
    replicas.other.shared.start({}, "2026-07-28", "modern");
    expect(taken()).toMatchObject({ code: "SESSION_NOT_FOUND" });
  });

  it("the text of a request that waits counts as memory, and too long ones are rejected", () => {
    const replicas = new Replicas({ childEra: "auto", isStarted: false });
    const id = replicas.open(PRIVATE);
    const text = "x".repeat(1_000_000);
    const budget = new MemoryBudget(50_000_000);
    const { taken } = replicas.takeUp(id, { memory: budget.account("127.0.0.1"), text });
    expect([taken(), budget.status.usedBytes >= text.length]).toEqual([undefined, true]);
    const tooLong = replicas.takeUp(id, { text: text.repeat(20) });
    expect(tooLong.taken()).toBeInstanceOf(SidecarError);
  });

  it("nothing is opened for a client that has left", () => {
    const replicas = new Replicas({ childEra: "auto", isStarted: false });
    const { taken, leave } = replicas.takeUp(replicas.open(PRIVATE));
    leave();
    replicas.other.shared.start({}, "2026-07-28", "modern");
    expect([taken(), replicas.other.sessions.size]).toEqual([undefined, 0]);
  });
});
