import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

function steps(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1);
}

describe.each(CLIENTS)("the $sdk client of a $lane server", ({ sdk, lane }) => {
  it("the client gets all progress of a call in order, and then the response", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    const seen: unknown[] = [];
    const text = await client.toolText("test_steps", { steps: 20, text: "arrived" }, { onprogress: (event) => seen.push(event) });
    expect(text).toBe("arrived");
    expect(seen).toEqual(steps(20).map((progress) => ({ progress, total: 20 })));
    expect(client.errors).toEqual([]);
  });

  it("each of many simultaneous calls gets its own progress and response", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    const calls = steps(25).map(async (count) => {
      const seen: number[] = [];
      const text = await client.toolText(
        "test_steps",
        { steps: count, text: `call ${count}` },
        { onprogress: (event) => seen.push(event.progress) },
      );
      return { text, seen };
    });
    expect(await Promise.all(calls)).toEqual(steps(25).map((count) => ({ text: `call ${count}`, seen: steps(count) })));
    expect(client.errors).toEqual([]);
  });

  it("the server stops a call that the client cancels, and the client goes on", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    const name = `${sdk} ${lane} cancel`;
    const cancel = new AbortController();
    const waiting = client.callTool("test_wait", { name }, { signal: cancel.signal, onprogress: () => cancel.abort("no longer needed") });
    // The response has begun as a stream, without a message.
    await Promise.all([client.toolText("test_tell", { name, progress: 1 }), expect(waiting).rejects.toThrow("no longer needed")]);
    expect(await client.toolText("test_cancellation", { name })).toBe("no longer needed");
    expect(await client.ping()).toEqual({});
  });
});

describe.each(SDKS)("two %s clients of a shared server", (sdk) => {
  it("a client cancels its own call, not the other's with the same id", async () => {
    await using first = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    await using second = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    const cancel = new AbortController();
    const given = first.callTool("test_wait", { name: `${sdk} first` }, { signal: cancel.signal });
    const kept = second.toolText("test_wait", { name: `${sdk} second` });
    for (const name of [`${sdk} first`, `${sdk} second`]) await first.toolText("test_tell", { name });
    cancel.abort("enough");
    await expect(given).rejects.toThrow("enough");
    expect(await second.toolText("test_cancellation", { name: `${sdk} first` })).toBe("enough");
    await second.toolText("test_tell", { name: `${sdk} second`, answer: "still here" });
    expect(await kept).toBe("still here");
  });
});
