import { describe, expect, it } from "vitest";
import {
  isCreateTaskResult,
  type NotificationMessage,
  readMessage,
  type RequestMessage,
  type ResponseMessage,
} from "../../../src/jsonrpc/message.ts";
import { ForwardedRequests } from "../../../src/mux/forwarded-requests.ts";
import { TaskTokens } from "../../../src/mux/task-tokens.ts";

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
    const error = result === undefined ? { code: 1, message: "no" } : undefined;
    const response = readMessage(JSON.stringify({ jsonrpc: "2.0", id: 1, result, error })) as ResponseMessage;
    expect(isCreateTaskResult(response)).toBe(isKept);
  });
});

describe("a client that answers a request of the server with a task", () => {
  const request = '{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"_meta":{"progressToken":"t"},"task":{}}}';
  const progress = (token: string): string =>
    `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":0.50}}`;

  it.each([
    ['{"task":{"taskId":"a"}}', progress('"t"')],
    ['{"role":"assistant"}', undefined],
  ])("with %s: its later progress reaches the server as %s", (result, carried) => {
    const forwarded = new ForwardedRequests();
    const asked = forwarded.add(readMessage(request) as RequestMessage, 1000);
    const { id } = JSON.parse(asked) as { id: number };
    forwarded.answer(readMessage(`{"jsonrpc":"2.0","id":${id},"result":${result}}`) as ResponseMessage);
    const later = readMessage(progress(String(id))) as NotificationMessage;
    expect(forwarded.progress(later)).toBe(carried);
    forwarded.clear();
    expect(forwarded.progress(later)).toBeUndefined();
  });
});
