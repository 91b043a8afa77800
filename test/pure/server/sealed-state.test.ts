import { expect, it } from "vitest";
import { sealState, unsealState } from "../../../src/server/sealed-state.ts";
import { findResult } from "../../../src/mcp/translate.ts";
import { SidecarError } from "../../../src/mcp/errors.ts";
import { SessionKeys } from "../../../src/session/ids.ts";
import { readMessage, type RequestMessage } from "../../../src/mcp/message.ts";

const ANN = { isRevoked: false, name: "ann", fingerprint: "ann", sessionKey: undefined };
const KEYS = new SessionKeys([], "mcp");
/** As the server has written it. */
const STATE = String.raw`"requestState":"secret \u00e4 \ud800"`;

function request(name: string, state?: unknown, method = "tools/call"): RequestMessage {
  return readMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { name, requestState: state } })) as RequestMessage;
}

function sealed(keys: SessionKeys, name = "t"): string {
  const body = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required",${STATE}}}`;
  const found = findResult(body, "1", undefined);
  const text = found === undefined ? undefined : sealState(keys, found, request(name), ANN);
  if (text === undefined) throw new Error("no state");
  expect(text).not.toContain("secret");
  return (JSON.parse(text) as { result: { requestState: string } }).result.requestState;
}

it("a replica of the same server with the same keys gets the state back", () => {
  const [one, other] = [
    ["old-key".repeat(5), "new-key".repeat(5)],
    ["new-key".repeat(5), "old-key".repeat(5)],
  ];
  const state = sealed(new SessionKeys(one, "mcp"));
  expect(unsealState(new SessionKeys(other, "mcp"), request("t", state), ANN)).toMatchObject({
    text: expect.stringContaining(STATE) as unknown,
  });
  expect(unsealState(new SessionKeys(other, "else"), request("t", state), ANN)).toBeInstanceOf(SidecarError);
});

it("no single changed character of a state is accepted", () => {
  const state = sealed(KEYS);
  for (let index = 0; index < state.length - 1; index++) {
    const changed = state.slice(0, index) + (state[index] === "A" ? "B" : "A") + state.slice(index + 1);
    expect(unsealState(KEYS, request("t", changed), ANN)).toBeInstanceOf(SidecarError);
  }
});
