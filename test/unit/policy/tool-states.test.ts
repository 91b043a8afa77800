import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ToolStates } from "../../../src/policy/tool-states.ts";

/** As many names as are kept. */
const MAX_TOOLS = 10_000;

interface State {
  readonly name: string;
  isUsed: boolean;
}

function statesOf(createShared?: (name: string) => State): ToolStates<State> {
  return new ToolStates<State>({
    create: (name) => (name.startsWith("no-") ? undefined : { name, isUsed: false }),
    isAsNew: ({ isUsed }) => !isUsed,
    ...(createShared === undefined ? {} : { createShared }),
  });
}

function flood(states: ToolStates<State>, count: number, prefix: string, isUsed = false): void {
  for (let number = 0; number < count; number++) {
    const state = states.get(`${prefix}${number}`);
    if (state !== undefined) state.isUsed = isUsed;
  }
}

describe("what is known of tools", () => {
  it("is the same whenever its name comes again, and undefined where there is nothing to know", () => {
    const states = statesOf();
    expect(states.get("search")).toBe(states.get("search"));
    expect(states.get("search")).not.toBe(states.get("Search"));
    expect([states.get("no-limit"), states.get("no-limit"), states.size]).toEqual([undefined, undefined, 3]);
  });

  it("is forgotten where it is as new, and never where it is not, however many names come", () => {
    const states = statesOf();
    const used = ["a", "b", "c"].map((name) => states.get(name));
    for (const state of used) if (state !== undefined) state.isUsed = true;
    flood(states, 5 * MAX_TOOLS, "made-up-");
    flood(states, MAX_TOOLS, "no-");
    expect(["a", "b", "c"].map((name) => states.get(name))).toEqual(used);
    expect(states.size).toBeLessThanOrEqual(MAX_TOOLS);
  });

  it("grows only by what is in use, and shrinks when that is over", () => {
    const states = statesOf();
    flood(states, MAX_TOOLS + 500, "used-", true);
    expect(states.size).toBe(MAX_TOOLS + 500);
    flood(states, MAX_TOOLS + 500, "used-", false);
    flood(states, MAX_TOOLS, "new-");
    expect(states.size).toBeLessThanOrEqual(MAX_TOOLS);
  });

  it("is shared by what there is no room for, where that is wanted, until there is", () => {
    const shared: State = { name: "shared", isUsed: true };
    const states = statesOf(() => shared);
    flood(states, MAX_TOOLS, "used-", true);
    expect([states.get("late"), states.get("later"), states.size]).toEqual([shared, shared, MAX_TOOLS]);
    expect(states.get("used-7")?.name).toBe("used-7");
    flood(states, MAX_TOOLS, "used-", false);
    expect(states.get("late")?.name).toBe("late");
  });

  it("is one for all names with the same thousand characters in the beginning", () => {
    const states = statesOf();
    const long = "x".repeat(1000);
    expect(states.get(`${long}1`)).toBe(states.get(`${long}2`));
    expect(states.get(long)).toBe(states.get(`${long}3`));
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 990, maxLength: 1010 }), fc.string(), (name, rest) => {
        const beginning = name.slice(0, 1000).padEnd(1000, "y");
        expect(states.get(beginning + rest)).toBe(states.get(beginning));
      }),
    );
  });
});
