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

/** Returns the ledger's verdict after these messages for the first of two requests. */
function verdictsOn(...messages: readonly { readonly message: object; readonly eventId?: string; readonly status?: number }[]): object {
  const ledger = new Ledger();
  const inbox = new Inbox("anna", ledger, { onRight: () => undefined, onServerRequest: () => undefined });
  const first = record(1);
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

  it("the first answer to a request is right, and a second one is counted", () => {
    expect(verdictsOn(right)).toEqual({ right: 1 });
    expect(verdictsOn(right, right)).toEqual({ right: 1, answeredTwice: 1 });
  });

  it("a result without a type is wrong for a stateless client", () => {
    const ledger = new Ledger();
    const inbox = new Inbox("anna", ledger, { onRight: () => undefined, onServerRequest: () => undefined });
    const stateless: RequestRecord = { ...record(1), isStateless: true };
    inbox.expect(stateless);
    inbox.receive(answerTo(stateless), undefined, stateless, 200);
    expect(stateless.verdict).toBe("wrong");
  });

  it("a repeated event is counted", () => {
    const message = { jsonrpc: "2.0", method: "notifications/message" };
    expect(verdictsOn({ message, eventId: "a" }, { message, eventId: "a" }, right)).toEqual({ right: 1, answeredTwice: 1 });
  });

  it("an answer to another request or client, or to none, is counted", () => {
    expect(verdictsOn({ message: { ...answerTo(record(2)), id: 1 } })).toEqual({ wrong: 1 });
    expect(verdictsOn({ message: { ...answerTo(record(2)), id: 1 } }, right)).toEqual({ wrong: 1, answeredTwice: 1 });
    expect(verdictsOn({ message: answerTo(record(1, "berta")) })).toEqual({ crossed: 1 });
    expect(verdictsOn({ message: answerTo(record(3)) }, right)).toEqual({ right: 1, strayAnswers: 1 });
    expect(verdictsOn({ message: { ...answerTo(record(1)), id: "1" } }, right)).toEqual({ right: 1, strayAnswers: 1 });
  });

  it("an answer with broken characters is wrong", () => {
    const broken = JSON.parse(JSON.stringify(answerTo(record(1))).replaceAll("ö", "��")) as object;
    expect(verdictsOn({ message: broken })).toEqual({ wrong: 1 });
  });

  it("progress of another client's request is counted", () => {
    const message = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "berta/1" } };
    expect(verdictsOn({ message }, right)).toEqual({ right: 1, crossedNotifications: 1 });
  });

  it("a response without an answer is lost", () => {
    expect(verdictsOn()).toEqual({ lost: 1 });
  });

  it("an error is an answer, also if HTTP rejects the request without its id", () => {
    const error = { code: -32000, message: "no", data: { code: "OVERLOADED" } };
    expect(verdictsOn({ message: { jsonrpc: "2.0", id: 1, error } })).toEqual({ error: 1 });
    expect(verdictsOn({ message: { jsonrpc: "2.0", error }, status: 503 })).toEqual({ error: 1 });
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
