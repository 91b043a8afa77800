import { describe, expect, it } from "vitest";
import { type ClientMessage, readClientMessage } from "../../../src/jsonrpc/client-message.ts";
import { classify, type RequestMessage } from "../../../src/jsonrpc/message.ts";
import { ForwardedRequests } from "../../../src/mux/forwarded-requests.ts";
import { isCreateTaskResult, TaskTokens } from "../../../src/mux/task-tokens.ts";

describe("the progress token of a task", () => {
  it("stands for its owner until that is over, or until nobody runs tasks any more", () => {
    const tokens = new TaskTokens<string>();
    tokens.keep(1, "first");
    tokens.keep(2, "second");
    expect([tokens.get(1), tokens.get(2), tokens.get(3), tokens.get("1"), tokens.get(undefined)]).toEqual([
      "first",
      "second",
      undefined,
      undefined,
      undefined,
    ]);
    tokens.deleteWhere((owner) => owner === "first");
    expect([tokens.get(1), tokens.get(2)]).toEqual([undefined, "second"]);
    tokens.clear();
    expect(tokens.get(2)).toBeUndefined();
  });

  it("is forgotten where there are 1024 newer ones", () => {
    const tokens = new TaskTokens<number>();
    for (let id = 1; id <= 1025; id++) tokens.keep(id, id);
    expect([tokens.get(1), tokens.get(2), tokens.get(1025)]).toEqual([undefined, 2, 1025]);
  });

  it.each([
    [{ task: { taskId: "a", status: "working" } }, true],
    [{ content: [] }, false],
    [{ task: "a" }, false],
    [{ task: { taskId: 1 } }, false],
    [{ task: null }, false],
    [[], false],
    [null, false],
    [undefined, false],
  ])("is kept for a result that is %j: %s", (result, isKept) => {
    expect(isCreateTaskResult(result)).toBe(isKept);
  });
});

function fromClient(text: string): ClientMessage {
  const message = readClientMessage(text);
  if ("code" in message) throw new Error(message.reason);
  return message;
}

describe("a client that answers a request of the server with a task", () => {
  const request = '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"t"},"task":{}}}';
  const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.50}}';

  it.each([
    ['{"task":{"taskId":"a"}}', progress.replace('"progressToken":1', '"progressToken":"t"')],
    ['{"role":"assistant"}', undefined],
  ])("with %s: its later progress reaches the server as %s", (result, carried) => {
    const forwarded = new ForwardedRequests();
    forwarded.add(classify(JSON.parse(request)) as RequestMessage, request, 1000);
    forwarded.answer(fromClient(`{"jsonrpc":"2.0","id":1,"result":${result}}`));
    expect(forwarded.progress(fromClient(progress))).toBe(carried);
    forwarded.clear();
    expect(forwarded.progress(fromClient(progress))).toBeUndefined();
  });
});
