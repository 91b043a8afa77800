import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Secrets } from "../../../src/observe/redact.ts";
import { OutputLog, ServerLog } from "../../../src/process/output-log.ts";
import { RecordedLog, contextOf } from "../../support/context.ts";

const PIECE = 16 * 1024;

function record(chunks: readonly (Buffer | string)[], secrets = new Secrets({})): { log: RecordedLog; tail: readonly string[] } {
  const log = new RecordedLog();
  const context = contextOf({}, { log, secrets, nowMs: () => 0 });
  const output = new OutputLog(context, { childPid: 12, generation: 3 }, new ServerLog(context));
  for (const chunk of chunks) output.addStderr(Buffer.from(chunk));
  output.end();
  return { log, tail: output.stderrTail };
}

function inChunks(text: fc.Arbitrary<string>): fc.Arbitrary<{ readonly text: string; readonly chunks: readonly Buffer[] }> {
  return fc.tuple(text, fc.array(fc.nat({ max: 4 * PIECE }), { maxLength: 10 })).map(([whole, cuts]) => {
    const bytes = Buffer.from(whole);
    const points = [0, ...cuts.toSorted((a, b) => a - b), bytes.length];
    return { text: whole, chunks: points.slice(1).map((end, index) => bytes.subarray(points[index], end)) };
  });
}

describe("the log of stderr", () => {
  it("any text is logged the same, however it is split", () => {
    const character = fc.constantFrom("a", " ", "\t", "\u0000", "é", "\u2028", "€", "\u{FEFF}", "😀", "\u{10FFFF}");
    const line = fc.string({ unit: character, maxLength: 30, size: "max" });
    fc.assert(
      fc.property(inChunks(fc.array(line).map((lines) => lines.join("\n"))), ({ text, chunks }) => {
        const lines = Buffer.from(text).toString().split("\n");
        expect(record(chunks).log.messages).toEqual(lines.filter((each) => each !== ""));
      }),
    );
  });
});

describe("secrets on stderr", () => {
  const secrets = new Secrets({ SOME_API_KEY: "sk-0123456789" });

  it("a secret is masked wherever the line or the stream is split", () => {
    const secret = "sk-0123456789";
    const chunkEnds = fc.array(fc.nat({ max: 3 * PIECE }), { maxLength: 6 });
    fc.assert(
      fc.property(
        fc.nat({ max: 2 * PIECE }),
        fc.nat({ max: PIECE }),
        fc.nat({ max: secret.length }),
        chunkEnds,
        (before, after, within, ends) => {
          const line = `${"x".repeat(before)}${secret}${"y".repeat(after)}`;
          const points = [0, ...ends, before + within, line.length].toSorted((a, b) => a - b);
          const { log } = record(
            points.map((end, index) => line.slice(points[index - 1] ?? 0, end)),
            secrets,
          );
          expect(log.messages.join("")).toBe(`${"x".repeat(before)}***${"y".repeat(after)}`);
        },
      ),
    );
  });

  it("a secret is masked before the tail is truncated", () => {
    const { tail } = record([`${"x".repeat(506)}sk-0123456789\n`], secrets);
    expect(tail).toEqual([`${"x".repeat(506)}***`]);
  });
});
