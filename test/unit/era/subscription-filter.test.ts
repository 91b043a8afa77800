import { describe, expect, it } from "vitest";
import {
  accepts,
  contains,
  filterText,
  listChanges,
  readFilter,
  type SubscriptionFilter,
  supportedPart,
} from "../../../src/era/subscriptions/subscription-filter.ts";
import { SidecarError } from "../../../src/errors.ts";
import { readMessage, type RequestMessage } from "../../../src/protocol/message.ts";

function read(paramsText: string): SubscriptionFilter | SidecarError {
  return readFilter(readMessage(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":${paramsText}}`) as RequestMessage);
}

function filter(notifications: object): SubscriptionFilter {
  const result = read(JSON.stringify({ notifications }));
  if (result instanceof SidecarError) throw result;
  return result;
}

const ALL = filter({ toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: ["x:1", "x:2"] });

describe("the filter of a subscription", () => {
  it.each([
    "{}",
    '{"notifications":[]}',
    '{"notifications":null}',
    '{"notifications":{"resourceSubscriptions":"x:1"}}',
    '{"notifications":{"resourceSubscriptions":[1]}}',
  ])("the params %s are not valid", (params) => {
    expect(read(params)).toMatchObject({ code: "INVALID_PARAMS" });
  });

  it("an empty filter is valid, and unknown or false kinds are ignored", () => {
    expect(filterText(filter({ toolsListChanged: false, promptsListChanged: 1, taskIds: ["a"] }))).toBe("{}");
  });

  it("the accepted part is limited by the capabilities of the server", () => {
    expect(filterText(supportedPart(ALL, {}))).toBe("{}");
    expect(filterText(supportedPart(ALL, { tools: {}, prompts: { listChanged: true }, resources: { subscribe: false } }))).toBe(
      '{"promptsListChanged":true}',
    );
    expect(filterText(supportedPart(ALL, { resources: { subscribe: true } }))).toBe('{"resourceSubscriptions":["x:1","x:2"]}');
  });

  it("only the accepted kinds and exactly these URIs are delivered", () => {
    const part = filter({ toolsListChanged: true, resourceSubscriptions: ["x:1"] });
    expect([
      accepts(part, "notifications/tools/list_changed", undefined),
      accepts(part, "notifications/prompts/list_changed", undefined),
      accepts(part, "notifications/resources/updated", "x:1"),
      accepts(part, "notifications/resources/updated", "x:1/y"),
      accepts(part, "notifications/resources/updated", undefined),
      accepts(part, "notifications/message", undefined),
    ]).toEqual([true, false, true, false, false, false]);
  });

  it("a filter contains another one if it has all its kinds and URIs", () => {
    const part = filter({ toolsListChanged: true, resourceSubscriptions: ["x:2"] });
    expect([contains(ALL, part), contains(part, ALL), contains(part, part)]).toEqual([true, false, true]);
    expect(listChanges(part.lists).map((text) => JSON.parse(text) as unknown)).toEqual([
      { jsonrpc: "2.0", method: "notifications/tools/list_changed" },
    ]);
  });
});
