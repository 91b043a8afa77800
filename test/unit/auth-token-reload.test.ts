import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AuthTokenReload } from "../../src/auth-token-reload.ts";
import { AuthTokens } from "../../src/auth-tokens.ts";
import type { AuthTokenFile } from "../../src/config/auth-token-file.ts";
import { Counters } from "../../src/counters.ts";
import { Defects } from "../../src/defects.ts";
import type { Principal } from "../../src/mux/session.ts";
import { RecordedLog } from "../support/recorded-log.ts";

/** A file that says what the test says, and tokens that follow it. */
class Bench {
  file: AuthTokenFile = { tokens: ["first"] };
  reads = 0;
  readonly tokens = new AuthTokens(["first"]);
  readonly known: string[] = [];
  readonly revoked: Principal[] = [];
  readonly log = new RecordedLog();
  readonly counters = new Counters();
  readonly reload = new AuthTokenReload({
    tokens: this.tokens,
    texts: ["first"],
    read: () => {
      this.reads++;
      return Promise.resolve(this.file);
    },
    onTokens: (texts) => this.known.push(...texts),
    onRevoked: (principal) => this.revoked.push(principal),
    defects: new Defects(this.log, this.counters),
    log: this.log,
  });

  isValid(token: string): boolean {
    return this.tokens.identify(`Bearer ${token}`) !== undefined;
  }
}

const RELOADED = "auth tokens reloaded";
const NOT_TAKEN = "auth token file not taken: the tokens stay as they were";

describe("AuthTokenReload", () => {
  let bench: Bench;
  beforeEach(() => {
    vi.useFakeTimers();
    bench = new Bench();
  });
  afterEach(() => {
    bench.reload.close();
    vi.useRealTimers();
  });

  it("takes other tokens when the file has them, says how many, and whose are gone", async () => {
    const first = bench.tokens.identify("Bearer first");
    bench.file = { tokens: ["second", "third"] };
    await vi.advanceTimersByTimeAsync(2000);
    expect([bench.isValid("first"), bench.isValid("second"), bench.isValid("third")]).toEqual([false, true, true]);
    expect(bench.revoked).toEqual([first]);
    expect(bench.log.lines).toEqual([expect.objectContaining({ level: "info", message: RELOADED, fields: { count: 2 } })]);
    expect(bench.known).toEqual(["second", "third"]);
  });

  it("says nothing while the file stays as it is", async () => {
    await vi.advanceTimersByTimeAsync(60_000);
    expect(bench.reads).toBeGreaterThanOrEqual(59);
    expect(bench.log.lines).toEqual([]);
  });

  it("believes a change only when it was read twice: a file may be half written", async () => {
    bench.file = { tokens: ["half"] };
    await vi.advanceTimersByTimeAsync(1000);
    expect(bench.isValid("half")).toBe(false);
    bench.file = { tokens: ["first", "half-and-all-the-rest"] };
    await vi.advanceTimersByTimeAsync(2000);
    expect([bench.isValid("first"), bench.isValid("half"), bench.isValid("half-and-all-the-rest")]).toEqual([true, false, true]);
    expect(bench.log.lines).toHaveLength(1);
  });

  it("keeps what it has where the file cannot be taken, and says so once for each reason", async () => {
    bench.file = { problem: "it has no token" };
    await vi.advanceTimersByTimeAsync(30_000);
    bench.file = { problem: "it cannot be read (ENOENT)" };
    await vi.advanceTimersByTimeAsync(30_000);
    expect(bench.isValid("first")).toBe(true);
    expect(bench.log.lines).toEqual([
      expect.objectContaining({ level: "warn", message: NOT_TAKEN, fields: { reason: "it has no token" } }),
      expect.objectContaining({ level: "warn", message: NOT_TAKEN, fields: { reason: "it cannot be read (ENOENT)" } }),
    ]);
  });

  it("says that it is good again, and nobody has lost anything by it", async () => {
    const first = bench.tokens.identify("Bearer first");
    bench.file = { problem: "it has no token" };
    await vi.advanceTimersByTimeAsync(3000);
    bench.file = { tokens: ["first"] };
    await vi.advanceTimersByTimeAsync(3000);
    expect(bench.log.lines.at(-1)).toMatchObject({ level: "info", message: RELOADED, fields: { count: 1 } });
    expect(bench.tokens.identify("Bearer first")).toBe(first);
    expect(bench.revoked).toEqual([]);
  });

  it("reads no more once it is closed", async () => {
    bench.reload.close();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(bench.reads).toBe(0);
  });
});
