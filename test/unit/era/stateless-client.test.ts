import { describe, expect, it } from "vitest";
import { type StatelessClient, StatelessClients } from "../../../src/era/stateless-client.ts";
import { AMPLE_MEMORY } from "../../server/support/memory.ts";

function bench(maxClients: number): {
  readonly use: (holder: string) => StatelessClient;
  readonly forgotten: unknown[];
  readonly clients: StatelessClients;
} {
  const forgotten: unknown[] = [];
  const clients = new StatelessClients(
    maxClients,
    ({ memory }) => memory.holder === "asked",
    ({ memory }) => forgotten.push(memory.holder),
  );
  return { clients, forgotten, use: (holder) => clients.use(AMPLE_MEMORY.account(holder)) };
}

describe("clients without a session", () => {
  it("requests of one holder are those of one client", () => {
    const { use } = bench(10);
    expect(use("a")).toBe(use("a"));
    expect(use("a")).not.toBe(use("b"));
  });

  it("the longest unused client is forgotten first", () => {
    const { use, forgotten } = bench(2);
    for (const holder of ["a", "b", "a", "c"]) use(holder);
    expect(forgotten).toEqual(["b"]);
  });

  it("a client with a request in flight is never forgotten", () => {
    const { use, forgotten, clients } = bench(2);
    use("a").beginCall();
    use("b");
    use("c");
    expect(forgotten).toEqual(["b"]);
    use("c").beginCall();
    use("d");
    expect([forgotten, clients.size]).toEqual([["b"], 3]);
  });

  it("a client that is in use in another way is never forgotten", () => {
    const { use, forgotten } = bench(2);
    for (const holder of ["asked", "b", "c", "d"]) use(holder);
    expect(forgotten).toEqual(["b", "c"]);
  });

  it("a holder without a client can be ended", () => {
    const { use, forgotten, clients } = bench(2);
    use("a");
    expect([clients.end("x"), clients.end("a"), forgotten, clients.size]).toEqual([false, true, ["a"], 0]);
  });
});
