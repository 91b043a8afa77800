import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AuthTokenReload } from "../../../src/auth/auth-token-reload.ts";
import { AuthTokens } from "../../../src/auth/auth-tokens.ts";
import type { SecretFile } from "../../../src/config/secret-file.ts";
import { Counters } from "../../../src/observability/counters.ts";
import { Defects } from "../../../src/observability/defects.ts";
import { RecordedLog } from "../../support/recorded-log.ts";

/** A file whose content the test sets, and tokens that follow it. */
class Bench {
  file: SecretFile = { texts: ["first"] };
  reads = 0;
  readonly tokens = new AuthTokens(["first"], "mcp");
  /** The secrets that are masked in the log from now on. */
  readonly masked: string[] = [];
  readonly log = new RecordedLog();
  readonly reload = new AuthTokenReload({
    tokens: this.tokens,
    texts: ["first"],
    read: () => {
      this.reads++;
      return Promise.resolve(this.file);
    },
    onTokens: (texts) => this.masked.push(...texts),
    onRevoked: () => undefined,
    defects: new Defects(this.log, new Counters()),
    log: this.log,
  });

  isValid(token: string): boolean {
    return this.tokens.identify(`Bearer ${token}`) !== undefined;
  }
}

describe("the reload of auth tokens", () => {
  let bench: Bench;
  beforeEach(() => {
    vi.useFakeTimers();
    bench = new Bench();
  });
  afterEach(() => {
    bench.reload.close();
    vi.useRealTimers();
  });

  it("a change is taken once two reads agree, since a file may be half written", async () => {
    bench.file = { texts: ["half"] };
    await vi.advanceTimersByTimeAsync(1000);
    expect(bench.isValid("half")).toBe(false);
    bench.file = { texts: ["first", "half-and-all-the-rest"] };
    await vi.advanceTimersByTimeAsync(2000);
    expect([bench.isValid("first"), bench.isValid("half"), bench.isValid("half-and-all-the-rest")]).toEqual([true, false, true]);
    expect([bench.masked, bench.log.lines.length]).toEqual([["first", "half-and-all-the-rest"], 1]);
  });

  it("a closed reload reads no more", async () => {
    bench.reload.close();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(bench.reads).toBe(0);
  });
});
