import { rm, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { FIXTURE } from "../support/sidecar.ts";
import { Supervised } from "../support/supervised.ts";
import { TempDir } from "../support/temp-dir.ts";

describe("the counters", () => {
  it("each exit is counted once by its kind, and each noise line once", async () => {
    await using directory = await TempDir.create();
    const fixture = (mode: string): string => `exec "${process.execPath}" "${FIXTURE}" ${mode}`;
    const command = directory.file("server");
    const installed = `#!/bin/sh
      read count < "$0.count"; echo $((count + 1)) > "$0.count"
      case $count in
        0) exit 0 ;;
        1) exit 3 ;;
        2) kill -9 $$ ;;
        3) ${fixture("silent")} ;;
        4) ${fixture("refuse")} ;;
        5) ${fixture("close-stdout-at-initialize")} ;;
        6) exec rm "$0" ;;
        *) echo "some noise"; echo "more noise"; ${fixture("normal")} ;;
      esac
    `;
    const install = (): Promise<void> => writeFile(command, installed, { mode: 0o755 });
    await writeFile(`${command}.count`, "0\n");
    await install();
    let counters: Supervised["counters"];
    let exits: Supervised["exits"];
    {
      await using supervised = new Supervised(command, [], 200, {
        onLost: ({ kind }) => {
          // Missing for one start, then installed again.
          if (kind === "spawn-failed") void install();
        },
      });
      ({ counters, exits } = supervised);
      await supervised.nextReady();
      supervised.supervisor.restart("hung", "hung: for a test");
      await supervised.nextReady();
    }
    await rm(command);

    expect(exits.map(({ generation }) => generation)).toEqual(exits.map((_, index) => index + 1));
    const kinds = exits.map(({ kind }) => kind).filter((kind, index) => kind !== "spawn-failed" || index === 7);
    expect(kinds).toEqual([
      "clean-exit",
      "crash",
      "signal",
      "handshake-timeout",
      "handshake-refused",
      "pipe-closed",
      "clean-exit",
      "spawn-failed",
      "hung",
      "stopped",
    ]);
    const counted: Record<string, number> = {};
    for (const { kind } of exits) counted[kind] = (counted[kind] ?? 0) + 1;
    expect(counters.toJSON()).toMatchObject({ exits: counted, dropped: { noiseLines: 4 } });
  });
});
