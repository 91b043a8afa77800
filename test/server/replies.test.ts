import { describe, expect, it } from "vitest";
import { SidecarError } from "../../src/mcp/errors.ts";
import { Reply } from "../../src/session/reply.ts";
import { contextOf } from "../support/context.ts";
import { RecordedReply } from "./support/recorded-reply.ts";

const RESULT = '{"jsonrpc":"2.0","id":1,"result":{}}';

describe("the reply to a request", () => {
  it("changes the response by its transforms, from the last one to the first", () => {
    const reply = new RecordedReply(contextOf(), "1", 0);
    for (const name of ["first", "last"]) {
      reply.transforms.push((text, idText) => text.replace("{}", `{"id":${idText},"${name}":{}}`));
    }
    reply.respond(RESULT);
    expect(reply.outcome).toEqual({ id: 1, last: { id: 1, first: {} } });
  });

  it("counts the error in place of a result, as its client has got it", () => {
    const context = contextOf();
    const reply = new RecordedReply(context, "1", 0);
    reply.transforms.push(() => new SidecarError("UNKNOWN_RESULT_TYPE", "unknown", { sent: true }));
    reply.accept();
    reply.respond(RESULT);
    const { answers, byKey } = context.counters;
    expect([reply.outcome, answers.results, [...byKey.failures]]).toEqual(["UNKNOWN_RESULT_TYPE", 0, [["UNKNOWN_RESULT_TYPE", 1]]]);
  });

  it("can still fail, and counts once, if a defect has prevented the response", () => {
    const context = contextOf();
    const sent: unknown[] = [];
    const finish = (outcome: unknown): string => {
      if (outcome === RESULT) throw new Error("a defect");
      return String(sent.push(outcome));
    };
    const reply = new Reply(context, "1", 0, { finish });
    reply.accept();
    expect(() => reply.respond(RESULT)).toThrow("a defect");
    const error = new SidecarError("INTERNAL_ERROR", "a defect", { sent: true });
    reply.fail(error);
    reply.fail(error);
    expect([sent, [...context.counters.byKey.failures]]).toEqual([[error], [["INTERNAL_ERROR", 1]]]);
  });

  it("counts as unread, and sends nothing more, after its client has left", () => {
    const context = contextOf();
    const sent: unknown[] = [];
    const reply = new Reply(context, "1", 0, { emit: (text) => sent.push(text) > 0, finish: (outcome) => String(sent.push(outcome)) });
    reply.accept();
    reply.disconnect();
    reply.disconnect();
    reply.respond(RESULT);
    expect([reply.emit(RESULT), sent, context.counters.answers]).toEqual([false, [], { results: 0, errors: 0, dismissed: 0, unread: 1 }]);
  });
});
