import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

describe.each(["2025-06-18", "2025-03-26", "2024-11-05", "2024-10-07"])("the v2 client that only supports %s", (revision) => {
  it.each(["private", "shared"] as const)("a %s server works in that revision", async (lane) => {
    await using client = await InteropClient.connect("v2", sidecar.url, { lane, revision });
    const seen: number[] = [];
    const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress);
    expect(client.protocolVersion).toBe(revision);
    expect(await client.toolText("test_steps", { steps: 3, text: "old" }, { onprogress })).toBe("old");
    expect(seen).toEqual([1, 2, 3]);
    expect(client.errors).toEqual([]);
  });
});
