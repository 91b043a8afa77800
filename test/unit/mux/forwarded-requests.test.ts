import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type NotificationMessage, readMessage, type RequestMessage, type ResponseMessage } from "../../../src/jsonrpc/message.ts";
import { ForwardedRequests } from "../../../src/mux/forwarded-requests.ts";
import { idText } from "../../support/json-text.ts";
import { asServerReads } from "../support/as-server-reads.ts";

const readRequest = (text: string): RequestMessage => readMessage(text) as RequestMessage;
const readNotification = (text: string): NotificationMessage => readMessage(text) as NotificationMessage;
const readResponse = (text: string): ResponseMessage => readMessage(text) as ResponseMessage;

/** What the server says: a request is forwarded. */
function add(forwarded: ForwardedRequests, text: string, deadlineMs = 1000): string {
  return forwarded.add(readRequest(text), deadlineMs);
}

/** The id that the client knows it by. */
function addedId(forwarded: ForwardedRequests, text: string, deadlineMs?: number): number {
  return (JSON.parse(add(forwarded, text, deadlineMs)) as { id: number }).id;
}

function cancel(forwarded: ForwardedRequests, id: string): string | undefined {
  const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId": ${id}}}`;
  return forwarded.cancel(readNotification(text));
}

function roots(id: string): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`;
}

function answerTo(id: string | number): ResponseMessage {
  return readResponse(`{"jsonrpc":"2.0","id":${id},"result":{"roots":[]}}`);
}

describe("a request of the server to its client", () => {
  it("goes out under an id that is minted here, and its answer comes back under the server's own, byte for byte", () => {
    fc.assert(
      fc.property(idText, (id) => {
        const forwarded = new ForwardedRequests();
        const params = '{"n":9007199254740993,"x":1.0}';
        const asked = add(forwarded, `{"jsonrpc":"2.0", "id" : ${id} ,"method":"elicitation/create","params":${params}}`);
        const { id: minted } = JSON.parse(asked) as { id: number };
        expect(asked).toBe(`{"jsonrpc":"2.0", "id" : ${minted} ,"method":"elicitation/create","params":${params}}`);
        const answer = `{"result":{"id":1,"x":1.0},"id" : ${minted},"jsonrpc":"2.0"}`;
        expect(forwarded.answer(readResponse(answer))).toBe(asServerReads(`{"result":{"id":1,"x":1.0},"id" : ${id},"jsonrpc":"2.0"}`));
        expect(forwarded.size).toBe(0);
      }),
    );
  });

  it("is answered in one line, with a result or with an error", () => {
    const forwarded = new ForwardedRequests();
    const id = addedId(forwarded, roots('"a"'));
    const error = `{"jsonrpc":"2.0",\n"id":${id},\r\n"error":{"code":-1,"message":"declined"}}`;
    expect(forwarded.answer(readResponse(error))).toBe('{"jsonrpc":"2.0", "id":"a",  "error":{"code":-1,"message":"declined"}}');
  });

  it("is answered once, by nothing but an answer with its id", () => {
    const forwarded = new ForwardedRequests();
    const id = addedId(forwarded, roots('"a"'));
    for (const other of [id + 1, id - 1, `"${id}"`, '"a"', -id, id + 0.5]) expect(forwarded.answer(answerTo(other))).toBeUndefined();
    expect(forwarded.answer(readResponse('{"jsonrpc":"2.0","error":{"code":-1,"message":"?"}}'))).toBeUndefined();
    expect(forwarded.size).toBe(1);
    expect(forwarded.answer(answerTo(id))).toContain('"id":"a"');
    expect(forwarded.answer(answerTo(id))).toBeUndefined();
  });

  it("is told apart from another one that the server gave the same id", () => {
    const forwarded = new ForwardedRequests();
    const [first, second] = [addedId(forwarded, roots("1")), addedId(forwarded, roots("1"))];
    expect(second).toBe(first + 1);
    expect([forwarded.answer(answerTo(second)), forwarded.answer(answerTo(first))].map((text) => text?.includes('"id":1'))).toEqual([
      true,
      true,
    ]);
  });

  it("of a server that is gone never gets an answer that is for the next one's", () => {
    const forwarded = new ForwardedRequests();
    const first = addedId(forwarded, roots("1"));
    forwarded.clear();
    expect(forwarded.size).toBe(0);
    const next = addedId(forwarded, roots("1"));
    expect(next).toBe(first + 1);
    expect(forwarded.answer(answerTo(first))).toBeUndefined();
    expect(forwarded.answer(answerTo(next))).toContain('"id":1');
  });
});

describe("the server's cancellation of it", () => {
  it("names it to the client as the client knows it, and a late answer goes nowhere", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    const id = addedId(forwarded, roots('"b"'));
    expect(cancel(forwarded, '"b"')).toBe(
      `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId": ${id}}}`,
    );
    expect([forwarded.size, forwarded.answer(answerTo(id)), cancel(forwarded, '"b"')]).toEqual([1, undefined, undefined]);
  });

  it.each(["1", '"A"', '"c"', "null"])("is none where it names %s, of which nothing is known", (id) => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    expect([cancel(forwarded, id), forwarded.size]).toEqual([undefined, 1]);
  });

  it("is none where it names nothing at all", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    expect(forwarded.cancel(readNotification('{"jsonrpc":"2.0","method":"notifications/cancelled"}'))).toBeUndefined();
  });
});

describe("the client's progress on it", () => {
  const progress = (token: string | number): NotificationMessage =>
    readNotification(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0,"progressToken":${token}}}`);

  it("reaches the server under the token that it chose", () => {
    fc.assert(
      fc.property(idText, (token) => {
        const forwarded = new ForwardedRequests();
        const asked = (value: string): string =>
          `{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"_meta":{"x":1.0,"progressToken":${value}}}}`;
        const line = add(forwarded, asked(token));
        const { id } = JSON.parse(line) as { id: number };
        expect(line).toBe(asked(String(id)).replace('"id":"s"', `"id":${id}`));
        expect(forwarded.progress(progress(id))).toBe(asServerReads(progress(token).text));
      }),
    );
  });

  it("goes nowhere where the server wants none, or the request is over", () => {
    const forwarded = new ForwardedRequests();
    const without = addedId(forwarded, roots('"a"'));
    expect([forwarded.progress(progress(without)), forwarded.progress(progress(`"${without}"`))]).toEqual([undefined, undefined]);
    const id = addedId(forwarded, '{"jsonrpc":"2.0","id":"b","method":"roots/list","params":{"_meta":{"progressToken":"t"}}}');
    expect(forwarded.progress(progress(`"${id}"`))).toBeUndefined();
    expect(forwarded.progress(progress(id))).toContain('"progressToken":"t"');
    forwarded.answer(answerTo(id));
    expect(forwarded.progress(progress(id))).toBeUndefined();
    expect(forwarded.progress(readNotification('{"jsonrpc":"2.0","method":"notifications/progress"}'))).toBeUndefined();
  });
});

describe("requests that the client does not answer", () => {
  it("are given up at their time, each once, under the server's own id; the others go on", () => {
    const forwarded = new ForwardedRequests();
    const givenUp: string[] = [];
    const expire = (nowMs: number): number =>
      forwarded.expire(nowMs, (request) => void givenUp.push(`${request.method} ${request.idText}`));
    add(forwarded, roots('"late"'), 300);
    const overdue = addedId(forwarded, roots("1.0"), 100);
    add(forwarded, roots('"soon"'), 200);
    expect([expire(99), givenUp]).toEqual([100, []]);
    expect([expire(200), givenUp]).toEqual([300, ["roots/list 1.0", 'roots/list "soon"']]);
    expect([forwarded.answer(answerTo(overdue)), forwarded.size]).toEqual([undefined, 1]);
    expect([expire(1000), givenUp.length, forwarded.size]).toEqual([Number.POSITIVE_INFINITY, 3, 0]);
  });
});
