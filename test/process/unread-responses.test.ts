import { describe, expect, it } from "vitest";
import { openUnread } from "../support/open-sockets.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

describe("a client that sends a thousand requests at once and reads nothing", () => {
  it.each([
    { what: "/metrics share one rendering", find: (): string => "/metrics" },
    { what: "files of the page share their bytes", find: (page: string): string => `/${/page\/[^"]+\.js/.exec(page)?.[0]}` },
  ])("responses with $what, so that they take no memory", async ({ find }) => {
    await using sidecar = await Sidecar.start();
    const client = await sidecar.client();
    for (const method of ["resources/list", "resources/read"]) await client.request(method);
    const path = find(await (await fetch(sidecar.origin)).text());
    expect((await fetch(`${sidecar.origin}${path}`)).status).toBe(200);
    const before = (await readStatus(sidecar)).rssBytes;
    using _ = await openUnread(sidecar.origin, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(1000));
    expect(await client.toolText("echo", { text: "not blocked" })).toBe("not blocked");
    expect((await readStatus(sidecar)).rssBytes - before).toBeLessThan(100_000_000);
  });
});
