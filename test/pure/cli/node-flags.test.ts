import { describe, expect, it } from "vitest";
import { missingNodeFlags, type NodeStart } from "../../../src/cli/node-flags.ts";

const GIBIBYTE = 2 ** 30;
const START: NodeStart = { execArgv: [], nodeOptions: undefined, constrainedBytes: 0, machineBytes: 16 * GIBIBYTE };
const SEMI = "--max-semi-space-size=8";

function missing(start: Partial<NodeStart>): string[] {
  return missingNodeFlags({ ...START, ...start });
}

describe("the memory flags of Node", () => {
  it.each([
    ["without a limit", 0],
    ["with the number that Node returns without a limit", 2 ** 64],
    ["with a limit of the whole machine", 16 * GIBIBYTE],
  ])("the young generation alone is limited %s", (_when, constrainedBytes) => {
    expect(missing({ constrainedBytes })).toEqual([SEMI]);
  });

  it.each([
    { mib: 2048, semiSpace: 8, oldSpace: 1024 },
    { mib: 512, semiSpace: 8, oldSpace: 256 },
    { mib: 256, semiSpace: 4, oldSpace: 128 },
    { mib: 100.5, semiSpace: 1, oldSpace: 50 },
    { mib: 1, semiSpace: 1, oldSpace: 1 },
  ])("the heap fits a container of $mib MiB", ({ mib, semiSpace, oldSpace }) => {
    const flags = [`--max-semi-space-size=${semiSpace}`, `--max-old-space-size=${oldSpace}`];
    expect(missing({ constrainedBytes: mib * 2 ** 20 })).toEqual(flags);
  });

  it.each([
    [{ execArgv: ["--max-semi-space-size=32", "--max-old-space-size=300"] }, []],
    [{ execArgv: ["--max-semi-space-size=8", "--max-old-space-size-percentage=50"] }, []],
    [{ nodeOptions: "--max_semi_space_size=32 --max_old_space_size=300" }, []],
    [{ nodeOptions: "--max-old-space-size=300" }, [SEMI]],
    [{ execArgv: ["--import", "x.js"] }, [SEMI, "--max-old-space-size=512"]],
  ])("sizes that the operator has chosen are kept: %j", (start: Partial<NodeStart>, expected: string[]) => {
    expect(missing({ constrainedBytes: GIBIBYTE, ...start })).toEqual(expected);
  });

  it("nothing is missing after a start with the missing flags", () => {
    const start = { constrainedBytes: GIBIBYTE };
    expect(missing({ ...start, execArgv: missing(start) })).toEqual([]);
  });
});
