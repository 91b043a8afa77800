import { describe, expect, it } from "vitest";
import { SessionStore } from "../../../src/mux/session-store.ts";

describe("SessionStore", () => {
  it("gives each session an id of its own, of visible ASCII characters, that nobody can guess", () => {
    const store = new SessionStore(1000);
    const ids = Array.from({ length: 1000 }, () => store.create("2025-11-25").id);
    expect(new Set(ids).size).toBe(1000);
    for (const id of ids) expect(id).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
  });

  it("finds a session with the revision that it was made with", () => {
    const store = new SessionStore(10);
    const session = store.create("2025-06-18");
    expect(session.protocolVersion).toBe("2025-06-18");
    expect(store.use(session.id)).toBe(session);
  });

  it.each(["constructor", "__proto__", "toString", "", "0"])("knows no session %j", (id) => {
    const store = new SessionStore(10);
    store.create("2025-11-25");
    expect(store.use(id)).toBeUndefined();
    expect(store.end(id)).toBe(false);
    expect(store.size).toBe(1);
  });

  it("ends a session once", () => {
    const store = new SessionStore(10);
    const { id } = store.create("2025-11-25");
    expect([store.end(id), store.end(id)]).toEqual([true, false]);
    expect(store.use(id)).toBeUndefined();
    expect(store.size).toBe(0);
  });

  it("ends the session that was longest not used when there is one too many", () => {
    const store = new SessionStore(3);
    const [a, b, c] = [store.create("2025-11-25"), store.create("2025-11-25"), store.create("2025-11-25")];
    store.use(a.id);
    store.use(b.id);
    const d = store.create("2025-11-25");
    expect(store.size).toBe(3);
    expect([a, b, c, d].map(({ id }) => store.use(id))).toEqual([a, b, undefined, d]);
  });

  it("holds no more than its limit, and always the newest", () => {
    const store = new SessionStore(1);
    const sessions = Array.from({ length: 5 }, () => store.create("2025-11-25"));
    expect(store.size).toBe(1);
    expect(sessions.map(({ id }) => store.use(id) !== undefined)).toEqual([false, false, false, false, true]);
  });
});
