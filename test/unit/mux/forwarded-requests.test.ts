import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type ClientMessage, readClientMessage } from "../../../src/jsonrpc/client-message.ts";
import { classify, type NotificationMessage, type RequestMessage } from "../../../src/jsonrpc/message.ts";
import { ForwardedRequests } from "../../../src/mux/forwarded-requests.ts";
import { idText } from "../../support/json-text.ts";

/** What the client sends. */
function fromClient(text: string): ClientMessage {
  const message = readClientMessage(text);
  if ("code" in message) throw new Error(message.reason);
  return message;
}

/** What the server says: a request is forwarded. */
function add(forwarded: ForwardedRequests, text: string, deadlineMs = 1000): string {
  return forwarded.add(classify(JSON.parse(text)) as RequestMessage, text, deadlineMs);
}

function cancel(forwarded: ForwardedRequests, id: string): string | undefined {
  const text = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId": ${id}}}`;
  return forwarded.cancel(classify(JSON.parse(text)) as NotificationMessage, text);
}

function roots(id: string): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`;
}

function answerTo(id: string | number): ClientMessage {
  return fromClient(`{"jsonrpc":"2.0","id":${id},"result":{"roots":[]}}`);
}

describe("a request of the server to its client", () => {
  it("goes out under an id that is minted here, and its answer comes back under the server's own, byte for byte", () => {
    fc.assert(
      fc.property(idText, (id) => {
        const forwarded = new ForwardedRequests();
        const params = '{"n":9007199254740993,"x":1.0}';
        expect(add(forwarded, `{"jsonrpc":"2.0", "id" : ${id} ,"method":"elicitation/create","params":${params}}`)).toBe(
          `{"jsonrpc":"2.0", "id" : 1 ,"method":"elicitation/create","params":${params}}`,
        );
        const answer = fromClient(`{"result":{"id":1,"x":1.0},"id" : 1,"jsonrpc":"2.0"}`);
        expect(forwarded.answer(answer)).toBe(`{"result":{"id":1,"x":1.0},"id" : ${id},"jsonrpc":"2.0"}`);
        expect(forwarded.size).toBe(0);
      }),
    );
  });

  it("is answered in one line, with a result or with an error", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    const error = fromClient('{"jsonrpc":"2.0",\n"id":1,\r\n"error":{"code":-1,"message":"declined"}}');
    expect(forwarded.answer(error)).toBe('{"jsonrpc":"2.0", "id":"a",  "error":{"code":-1,"message":"declined"}}');
  });

  it("is answered once, by nothing but an answer with its id", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    for (const id of ["2", "0", '"1"', '"a"', "-1", "1.5"]) expect(forwarded.answer(answerTo(id))).toBeUndefined();
    expect(forwarded.answer(fromClient('{"jsonrpc":"2.0","error":{"code":-1,"message":"?"}}'))).toBeUndefined();
    expect(forwarded.answer(fromClient('{"jsonrpc":"2.0","id":1,"method":"ping"}'))).toBeUndefined();
    expect(forwarded.size).toBe(1);
    expect(forwarded.answer(answerTo(1))).toContain('"id":"a"');
    expect(forwarded.answer(answerTo(1))).toBeUndefined();
  });

  it("is told apart from another one that the server gave the same id", () => {
    const forwarded = new ForwardedRequests();
    expect([add(forwarded, roots("1")), add(forwarded, roots("1"))].map((text) => (JSON.parse(text) as { id: number }).id)).toEqual([1, 2]);
    expect([forwarded.answer(answerTo(2)), forwarded.answer(answerTo(1))].map((text) => text?.includes('"id":1'))).toEqual([true, true]);
  });

  it("of a server that is gone never gets an answer that is for the next one's", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots("1"));
    forwarded.clear();
    expect(forwarded.size).toBe(0);
    expect(JSON.parse(add(forwarded, roots("1")))).toMatchObject({ id: 2 });
    expect(forwarded.answer(answerTo(1))).toBeUndefined();
    expect(forwarded.answer(answerTo(2))).toContain('"id":1');
  });
});

describe("the server's cancellation of it", () => {
  it("names it to the client as the client knows it, and a late answer goes nowhere", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    add(forwarded, roots('"b"'));
    expect(cancel(forwarded, '"b"')).toBe('{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"r","requestId": 2}}');
    expect([forwarded.size, forwarded.answer(answerTo(2)), cancel(forwarded, '"b"')]).toEqual([1, undefined, undefined]);
  });

  it.each(["1", '"A"', '"c"', "null"])("is none where it names %s, of which nothing is known", (id) => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    expect([cancel(forwarded, id), forwarded.size]).toEqual([undefined, 1]);
  });

  it("is none where it names nothing at all", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    const text = '{"jsonrpc":"2.0","method":"notifications/cancelled"}';
    expect(forwarded.cancel(classify(JSON.parse(text)) as NotificationMessage, text)).toBeUndefined();
  });
});

describe("the client's progress on it", () => {
  const progress = (token: string): ClientMessage =>
    fromClient(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1.0,"progressToken":${token}}}`);

  it("reaches the server under the token that it chose", () => {
    fc.assert(
      fc.property(idText, (token) => {
        const forwarded = new ForwardedRequests();
        const asked = (value: string): string =>
          `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"_meta":{"x":1.0,"progressToken":${value}}}}`;
        expect(add(forwarded, asked(token).replace('"id":1', '"id":"s"'))).toBe(asked("1"));
        expect(forwarded.progress(progress("1"))).toBe(progress(token).text);
      }),
    );
  });

  it("goes nowhere where the server wants none, or the request is over", () => {
    const forwarded = new ForwardedRequests();
    add(forwarded, roots('"a"'));
    expect([forwarded.progress(progress("1")), forwarded.progress(progress('"1"'))]).toEqual([undefined, undefined]);
    add(forwarded, '{"jsonrpc":"2.0","id":"b","method":"roots/list","params":{"_meta":{"progressToken":"t"}}}');
    expect(forwarded.progress(progress("2"))).toContain('"progressToken":"t"');
    forwarded.answer(answerTo(2));
    expect(forwarded.progress(progress("2"))).toBeUndefined();
    expect(forwarded.progress(fromClient('{"jsonrpc":"2.0","method":"notifications/progress"}'))).toBeUndefined();
  });
});

describe("requests that the client does not answer", () => {
  it("are given up at their time, each once, under the server's own id; the others go on", () => {
    const forwarded = new ForwardedRequests();
    const givenUp: string[] = [];
    const expire = (nowMs: number): number =>
      forwarded.expire(nowMs, (request) => void givenUp.push(`${request.method} ${request.idText}`));
    add(forwarded, roots('"late"'), 300);
    add(forwarded, roots("1.0"), 100);
    add(forwarded, roots('"soon"'), 200);
    expect([expire(99), givenUp]).toEqual([100, []]);
    expect([expire(200), givenUp]).toEqual([300, ["roots/list 1.0", 'roots/list "soon"']]);
    expect([forwarded.answer(answerTo(2)), forwarded.size]).toEqual([undefined, 1]);
    expect([expire(1000), givenUp.length, forwarded.size]).toEqual([Number.POSITIVE_INFINITY, 3, 0]);
  });
});
