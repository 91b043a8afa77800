import { describe, expect, it } from "vitest";
import { SessionState } from "../../../src/mux/session-state.ts";

describe("the log level of a session", () => {
  it("is the one that was set last with success, in the order in which it was asked for", () => {
    const state = new SessionState();
    const [debug, error, info] = [state.setLevel("debug"), state.setLevel("error"), state.setLevel("info")];
    error(true);
    expect(state.level).toBe("error");
    debug(true);
    expect(state.level).toBe("error");
    info(false);
    expect(state.level).toBe("error");
  });

  it("is none where none was set", () => {
    const state = new SessionState();
    state.setLevel("debug")(false);
    expect(state.level).toBeUndefined();
  });
});

describe("a subscription of a session", () => {
  it("holds from the server's answer on, until it is given back", () => {
    const state = new SessionState();
    const settle = state.subscribe("x:1");
    expect([...state.subscriptions()]).toEqual([]);
    settle?.(true);
    expect([[...state.subscriptions()], state.isSubscribed("x:1")]).toEqual([["x:1"], true]);
    state.unsubscribe("x:1");
    expect([[...state.subscriptions()], state.isSubscribed("x:1")]).toEqual([[], false]);
  });

  it("does not hold where it was refused, but goes on where only another request for it was", () => {
    const state = new SessionState();
    state.subscribe("x:1")?.(false);
    expect(state.isSubscribed("x:1")).toBe(false);
    const settles = [state.subscribe("x:2"), state.subscribe("x:2")];
    settles[1]?.(false);
    settles[0]?.(true);
    state.subscribe("x:2")?.(false);
    expect([...state.subscriptions()]).toEqual(["x:2"]);
  });

  it("does not hold where it was given back before it was confirmed, unless it was asked for again", () => {
    const state = new SessionState();
    const first = state.subscribe("x:1");
    state.unsubscribe("x:1");
    const second = state.subscribe("x:1");
    first?.(true);
    expect(state.isSubscribed("x:1")).toBe(false);
    second?.(true);
    expect(state.isSubscribed("x:1")).toBe(true);
  });

  it("is one of at most 1024, those that are not answered yet included", () => {
    const state = new SessionState();
    for (let number = 0; number < 1024; number++) state.subscribe(`x:${number}`)?.(number % 2 === 0);
    expect([...state.subscriptions()]).toHaveLength(512);
    for (let number = 0; number < 512; number++) state.subscribe(`y:${number}`);
    expect(state.subscribe("z:1")).toBeUndefined();
    expect(state.subscribe("x:0")).toBeDefined();
    state.unsubscribe("y:7");
    expect(state.subscribe("z:1")).toBeDefined();
  });
});
