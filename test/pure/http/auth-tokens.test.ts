import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import { expect, it, vi } from "vitest";
import { AuthTokens } from "../../../src/http/auth-tokens.ts";

const TOKEN = "s3cret-token";

function allows(authorization: string | undefined, ...tokens: readonly string[]): boolean {
  return new AuthTokens(tokens.length === 0 ? [TOKEN] : tokens, "mcp").identify(authorization) !== undefined;
}

it.each(["first!", "second", "third!", "wrong!", "of another length", ""])(
  "the token %j is compared with all tokens, in constant time",
  (presented) => {
    const compare = vi.spyOn(crypto, "timingSafeEqual");
    syncBuiltinESMExports();
    const tokens = ["first!", "second", "third!"];
    new AuthTokens(tokens, "mcp").identify(`Bearer ${presented}`);
    const compared = compare.mock.calls.map(([, expected]) => expected);
    compare.mockRestore();
    syncBuiltinESMExports();
    expect(compared).toEqual(tokens.map((token) => Buffer.from(token)));
  },
);

it("a token is compared by the bytes that a header carries", () => {
  const token = "schlüssel-€";
  expect(allows(`Bearer ${Buffer.from(token, "utf8").toString("latin1")}`, token)).toBe(true);
  expect(allows(`Bearer ${token}`, token)).toBe(false);
});
