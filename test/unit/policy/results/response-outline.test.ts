import { expect, it } from "vitest";
import { ResponseOutline } from "../../../../src/policy/results/response-outline.ts";
import { limitBody } from "../../../../src/policy/results/result-limit.ts";

const MANY = Array.from({ length: 10_000 }, (_, index) => `"k${index}":1`).join(",");
const BODY = `{"jsonrpc":"2.0","id":1,"result":{${MANY},"content":[{"type":"text",${MANY},"text":"a"}],"isError":true,"_meta":{${MANY}}}}`;

it("remembers no more members than there is room for, and all that mean something", () => {
  const { result, meta, content } = new ResponseOutline(BODY, 1024);
  for (const members of [result, meta, content?.[0]?.members]) expect(members?.size).toBeLessThan(1024 / 5 + 10);
  expect(result?.has("content") === true && result.has("isError") && result.has("_meta")).toBe(true);
  expect(content?.[0]?.members?.has("text")).toBe(true);
});

it("shows in what is kept that members are missing", () => {
  const kept = JSON.parse(limitBody(BODY, 1024) ?? "") as object;
  expect(kept).toMatchObject({
    id: 1,
    result: { content: [{ text: expect.stringMatching(/^a/) as string }], isError: true, _meta: { truncated: true } },
  });
});
