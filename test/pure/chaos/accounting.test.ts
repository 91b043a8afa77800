import { describe, expect, it } from "vitest";
import { Inbox } from "../../../chaos/client/inbox.ts";
import { digestOf } from "../../../chaos/contract.ts";
import { ALL_FAULT_KINDS, planFaults } from "../../../chaos/faults.ts";
import { Ledger, type RequestRecord } from "../../../chaos/ledger.ts";
import { Random } from "../../../chaos/random.ts";

function record(id: number, client = "anna"): RequestRecord {
  return { client, what: "echo", id, nonce: `n${id}`, text: "Köln", sentAtMs: 0 };
}

function answerTo({ id, client, nonce, text }: RequestRecord): object {
  const answer = { client, nonce, text, digest: digestOf({ client, nonce, text }), pid: 1 };
  return { jsonrpc: "2.0", id, result: { content: [{ type: "text", text: JSON.stringify(answer) }] } };
}

interface Received {
  readonly message: object;
  readonly eventId?: string;
  readonly status?: number;
}

/** Returns the ledger's verdict after these messages for the first of two requests. */
function verdictsOn(messages: readonly Received[], first = record(1)): object {
  const ledger = new Ledger();
  const inbox = new Inbox("anna", ledger, { onRight: () => undefined, onServerRequest: () => undefined });
  inbox.expect(first);
  inbox.expect(record(2));
  for (const { message, eventId, status = 200 } of messages) inbox.receive(message, eventId, first, status);
  inbox.settleAtEnd(first, { status: 200 }, false);
  const { verdicts, answeredTwice, strayAnswers, crossedNotifications } = ledger;
  const counts = Object.entries({ ...verdicts, answeredTwice, strayAnswers, crossedNotifications });
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

describe("the accounting of chaos", () => {
  const right = { message: answerTo(record(1)) };
  const wrong = { message: { ...answerTo(record(2)), id: 1 } };
  const event = { message: { jsonrpc: "2.0", method: "notifications/message" }, eventId: "a" };
  const progress = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "berta/1" } };
  const error = { code: -32000, message: "no", data: { code: "OVERLOADED" } };

  it.each<[what: string, messages: readonly Received[], verdicts: object]>([
    ["an answer", [right], { right: 1 }],
    ["two answers", [right, right], { right: 1, answeredTwice: 1 }],
    ["a repeated event", [event, event, right], { right: 1, answeredTwice: 1 }],
    ["the answer to another request", [wrong], { wrong: 1 }],
    ["a wrong answer before the right one", [wrong, right], { wrong: 1, answeredTwice: 1 }],
    ["the answer of another client", [{ message: answerTo(record(1, "berta")) }], { crossed: 1 }],
    ["an answer to no request", [{ message: answerTo(record(3)) }, right], { right: 1, strayAnswers: 1 }],
    ["an id of another type", [{ message: { ...answerTo(record(1)), id: "1" } }, right], { right: 1, strayAnswers: 1 }],
    [
      "broken characters",
      [{ message: JSON.parse(JSON.stringify(answerTo(record(1))).replaceAll("ö", "\ufffd\ufffd")) as object }],
      { wrong: 1 },
    ],
    ["progress of another client's request", [{ message: progress }, right], { right: 1, crossedNotifications: 1 }],
    ["nothing", [], { lost: 1 }],
    ["an error", [{ message: { jsonrpc: "2.0", id: 1, error } }], { error: 1 }],
    ["an error by HTTP, without an id", [{ message: { jsonrpc: "2.0", error }, status: 503 }], { error: 1 }],
  ])("%s is judged", (_what, messages, verdicts) => {
    expect(verdictsOn(messages)).toEqual(verdicts);
  });

  it("a result without a type is wrong for a stateless client", () => {
    expect(verdictsOn([right], { ...record(1), isStateless: true })).toEqual({ wrong: 1 });
  });
});

describe("the schedule of chaos", () => {
  it("the seed decides the schedule, and every kind comes before one repeats", () => {
    const plan = (seed: number): string[] => planFaults(ALL_FAULT_KINDS, new Random(seed), 60_000, 400).map(({ kind }) => kind);
    expect(plan(1)).toEqual(plan(1));
    expect(plan(1)).not.toEqual(plan(2));
    expect(new Set(plan(1).slice(0, ALL_FAULT_KINDS.length))).toEqual(new Set(ALL_FAULT_KINDS));
  });
});
