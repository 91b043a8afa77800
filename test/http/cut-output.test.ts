import * as fc from "fast-check";
import { expect, it } from "vitest";
import { HttpBench } from "../support/http-bench.ts";

it("a response written in pieces arrives whole, even with characters and line ends split", async () => {
  await using sidecar = await HttpBench.start({ mode: "newline-only" });
  const client = await sidecar.client();
  const text = fc.string({ unit: fc.constantFrom("a", "é", "€", "😀", "👩‍👩‍👧", "\u2028"), minLength: 1, maxLength: 20 });
  const lineEnd = fc.constantFrom("\n", "\r\n");
  const cuts = fc.array(fc.nat({ max: 200 }), { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(fc.record({ text, lineEnd, cuts }), async (args) => {
      expect(await client.toolText("cut_answer", args)).toBe(args.text);
    }),
    { numRuns: 60 },
  );
  expect(sidecar.logLines.filter(({ level }) => level === "warn")).toEqual([]);
});
