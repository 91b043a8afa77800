import { mkdir } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { EVERYTHING, filesystem } from "../support/real-servers.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

/** When the second editor comes: while the first one's server starts, in its first second, or after its question. */
const ARRIVALS = ["at once", "when the first one is connected", "when the first one has its roots"] as const;
const ORDERS = [["v1", "v2"] as const, ["v2", "v1"] as const].flatMap((order) => ARRIVALS.map((arrival) => [order, arrival] as const));

describe.each([
  ["filesystem", "list_allowed_directories", filesystem],
  ["everything", "get-roots-list", () => EVERYTHING],
] as const)("two editors at the %s server", (_name, tool, commandFor) => {
  it.each(ORDERS)("%s: each has its own roots, %s", async ([sdk, otherSdk], arrival) => {
    await using directory = await TempDir.create();
    const [own, other] = [directory.file("own"), directory.file("other")];
    for (const path of [own, other]) await mkdir(path);
    await using sidecar = await Sidecar.start({ command: commandFor(directory.file("own")) });
    const connect = (as: "v1" | "v2", path: string): Promise<InteropClient> =>
      InteropClient.connect(as, sidecar.url, { answer: () => ({ roots: [{ uri: pathToFileURL(path).href, name: "root" }] }) });
    const hasRoots = async (client: InteropClient, path: string): Promise<void> => {
      while (!(await client.toolText(tool)).includes(path));
    };
    const connecting = connect(sdk, own);
    if (arrival !== "at once") await connecting;
    if (arrival === "when the first one has its roots") await hasRoots(await connecting, own);
    await using second = await connect(otherSdk, other);
    await using first = await connecting;
    await Promise.all([hasRoots(first, own), hasRoots(second, other)]);
    expect(await first.toolText(tool)).not.toContain(other);
    expect(await second.toolText(tool)).not.toContain(own);
  });
});
