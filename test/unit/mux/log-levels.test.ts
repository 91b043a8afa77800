import { LoggingLevelSchema } from "@modelcontextprotocol/sdk/types.js";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LogLevels } from "../../../src/mux/log-levels.ts";
import type { Session } from "../../../src/mux/session.ts";
import { newSession } from "../support/sessions.ts";

/** Most verbose first. */
const LEVELS = LoggingLevelSchema.options;

const [a, b, c] = [newSession(), newSession(), newSession()];

function wanting(levels: LogLevels, level: unknown): Session[] {
  return [a, b, c].filter((session) => levels.wants(session, level));
}

describe("the log levels of a shared server", () => {
  it("are those of the protocol, and nothing else is one", () => {
    const levels = new LogLevels();
    for (const level of LEVELS) expect([levels.set(a, level), levels.levelOf(a)]).toEqual([true, level]);
    for (const level of ["DEBUG", "trace", "", "constructor", 0, null, undefined, ["debug"]]) expect(levels.set(b, level)).toBe(false);
    expect([levels.wants(a, "emergency"), levels.wants(b, "emergency"), levels.levelOf(b)]).toEqual([true, false, undefined]);
  });

  it("are told to the server only where the most verbose one changes", () => {
    const levels = new LogLevels();
    expect(levels.takeUntold()).toBeUndefined();
    levels.set(a, "warning");
    expect([levels.takeUntold(), levels.takeUntold()]).toEqual(["warning", undefined]);
    levels.set(b, "error");
    expect(levels.takeUntold()).toBeUndefined();
    levels.set(b, "debug");
    expect([levels.takeUntold(), levels.takeUntold()]).toEqual(["debug", undefined]);
    levels.set(b, "alert");
    expect(levels.takeUntold()).toBe("warning");
    levels.delete(a);
    expect(levels.takeUntold()).toBe("alert");
  });

  it("leave the server as it is when nobody wants logs any more, and tell it when somebody does again", () => {
    const levels = new LogLevels();
    levels.set(a, "info");
    levels.takeUntold();
    levels.delete(a);
    expect([levels.isEmpty, levels.takeUntold()]).toEqual([true, undefined]);
    levels.set(b, "info");
    expect([levels.isEmpty, levels.takeUntold()]).toEqual([false, undefined]);
    levels.set(b, "error");
    expect(levels.takeUntold()).toBe("error");
  });

  it("are told again to a server that did not take them, or is a new one", () => {
    const levels = new LogLevels();
    levels.set(a, "info");
    levels.takeUntold();
    levels.forgetTold();
    expect(levels.toldLevel).toBeUndefined();
    expect([levels.takeUntold(), levels.takeUntold(), levels.toldLevel]).toEqual(["info", undefined, "info"]);
  });

  it("let each session have what is as severe as it asked for, and no other have anything", () => {
    const levels = new LogLevels();
    levels.set(a, "debug");
    levels.set(b, "error");
    expect(wanting(levels, "info")).toEqual([a]);
    expect(wanting(levels, "critical")).toEqual([a, b]);
    expect([levels.wants(a, "debug"), levels.wants(b, "warning"), levels.wants(c, "emergency")]).toEqual([true, false, false]);
    for (const level of ["trace", undefined, 3]) expect([wanting(levels, level), levels.wants(a, level)]).toEqual([[], false]);
    levels.delete(a);
    expect(wanting(levels, "emergency")).toEqual([b]);
  });

  it("always leave the server at the most verbose level that anybody asked for last", () => {
    const step = fc.record({ session: fc.constantFrom(a, b, c), level: fc.option(fc.constantFrom(...LEVELS)) });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const levels = new LogLevels();
        const chosen = new Map<Session, number>();
        let told: string | undefined;
        for (const { session, level } of steps) {
          if (level === null) levels.delete(session);
          else levels.set(session, level);
          if (level === null) chosen.delete(session);
          else chosen.set(session, LEVELS.indexOf(level));
          const untold = levels.takeUntold();
          expect(untold === undefined || untold !== told).toBe(true);
          told = untold ?? told;
          // With nobody left, it stays as it is.
          expect(told).toBe(chosen.size === 0 ? told : LEVELS[Math.min(...chosen.values())]);
        }
      }),
    );
  });
});
