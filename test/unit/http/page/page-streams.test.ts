import type { IncomingMessage, ServerResponse } from "node:http";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SseConnection } from "../../../../src/http/output/sse-connection.ts";
import { PageStreams } from "../../../../src/http/page/page-streams.ts";
import type { PageState, PageUpdate } from "../../../../src/http/page/page-update.ts";
import { RecentActivity } from "../../../../src/http/page/recent-activity.ts";
import { RecentLog } from "../../../../src/http/page/recent-log.ts";
import { MemoryBudget } from "../../../../src/memory/memory-budget.ts";

/** A client that reads only if it is told to. */
interface Reader {
  readonly events: { readonly type: string; readonly update: PageUpdate }[];
  readonly response: { writableLength: number };
  isEnded: boolean;
}

describe("the streams of pages", () => {
  const activity = new RecentActivity(new RecentLog(), () => 0);
  let readers: Reader[];
  let streams: PageStreams;

  beforeEach(() => {
    vi.useFakeTimers();
    readers = [];
    streams = new PageStreams({
      activity,
      readState: () => ({ state: "ready" }) as PageState,
      connections: { open: (response) => connectionOf(response) },
      memory: new MemoryBudget(1),
      replacer: (_key, value) => value,
      defects: { guard: (_event, handle) => handle() },
    });
  });
  afterEach(() => {
    streams.close();
    vi.useRealTimers();
  });

  function connectionOf(response: ServerResponse): SseConnection {
    const reader: Reader = { events: [], response, isEnded: false };
    readers.push(reader);
    return {
      sendWithoutId: (type: string, text: string) => reader.events.push({ type, update: JSON.parse(text) as PageUpdate }),
      end: () => (reader.isEnded = true),
    } as unknown as SseConnection;
  }

  function open(): Reader {
    const response = { writableLength: 0 } as ServerResponse;
    streams.route({ complete: true, headers: {}, socket: {} } as IncomingMessage, response, undefined);
    const reader = readers.at(-1);
    if (reader === undefined) throw new Error("no stream was opened");
    return reader;
  }

  it("there is one update a second, whatever happens", () => {
    const reader = open();
    for (let index = 0; index < 1000; index++) activity.log.add(`line ${index}`);
    vi.advanceTimersByTime(5000);
    expect(reader.events).toHaveLength(6);
    expect(reader.events.map(({ update }) => update.logLines.length)).toEqual([0, 200, 0, 0, 0, 0]);
  });

  it("an update waits until the one before is read, and then has what is still kept", () => {
    const reader = open();
    reader.response.writableLength = 1;
    for (let second = 0; second < 10; second++) {
      for (let index = 0; index < 50; index++) activity.log.add(`line ${second}-${index}`);
      vi.advanceTimersByTime(1000);
    }
    expect(reader.events).toHaveLength(1);
    reader.response.writableLength = 0;
    vi.advanceTimersByTime(1000);
    expect(reader.events).toHaveLength(2);
    expect(reader.events[1]?.update.logLines.at(-1)).toBe("line 9-49");
    expect(reader.events[1]?.update.logLines).toHaveLength(200);
  });

  it("a ninth stream replaces the oldest", () => {
    for (let index = 0; index < 9; index++) open();
    expect(readers.map(({ isEnded }) => isEnded)).toEqual([true, ...Array.from({ length: 8 }, () => false)]);
    expect(readers[0]?.events.map(({ type }) => type)).toEqual(["update", "replaced"]);
  });

  it("the last update is sent before all streams end", () => {
    const reader = open();
    streams.close();
    expect([reader.events.length, reader.isEnded]).toEqual([2, true]);
  });

  it("a page that connects after that is rejected, so that the sidecar can end", () => {
    streams.close();
    const response = { writableLength: 0, destroyed: true, req: { socket: {} } } as unknown as ServerResponse;
    streams.route({ complete: true, headers: {}, socket: {} } as IncomingMessage, response, undefined);
    expect(readers).toEqual([]);
  });
});
