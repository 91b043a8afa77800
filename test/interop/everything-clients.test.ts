import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const DOCUMENT = "demo://resource/static/document/features.md";

const sidecar = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));

describe.each(SDKS)("the everything server of one %s client", (sdk) => {
  it("tools that need client capabilities are listed only to clients that declare these", async () => {
    await using askable = await InteropClient.connect(sdk, sidecar.url);
    await using plain = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    const offered = async (client: InteropClient): Promise<string[]> => (await client.listTools()).map(({ name }) => name);
    const onlyAskable = ["get-roots-list", "trigger-elicitation-request", "trigger-sampling-request", "trigger-url-elicitation"];
    expect(await offered(askable)).toEqual(expect.arrayContaining(onlyAskable));
    expect((await offered(plain)).filter((name) => onlyAskable.includes(name))).toEqual([]);
  });

  it("the client's model and its user answer the server's requests", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      answer: ({ method }) => {
        if (method === "roots/list") return { roots: [] };
        if (method === "elicitation/create") return { action: "accept", content: { name: "Ada", integer: 7 } };
        return { role: "assistant", model: "parrot", content: { type: "text", text: "crab" } };
      },
    });
    expect(await client.toolText("trigger-sampling-request", { prompt: "name an animal" })).toContain('"text": "crab"');
    const { content } = await client.callTool("trigger-elicitation-request");
    expect(content[1]?.text).toBe("User inputs:\n- Name: Ada\n- Favorite Integer: 7");
  });

  it("the user visits a page because of an elicitation or an error", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      answer: ({ method }) => (method === "roots/list" ? { roots: [] } : { action: "accept" }),
    });
    const args = { url: "https://page.example/", elicitationId: "visit-7" };
    expect(await client.toolText("trigger-url-elicitation", args)).toContain("Elicitation ID: visit-7");
    const error = await client.callTool("trigger-url-elicitation", { ...args, errorPath: true }).catch((cause: unknown) => cause);
    expect(error).toMatchObject({
      code: -32042,
      data: { elicitations: [{ mode: "url", url: "https://modelcontextprotocol.io", elicitationId: expect.any(String) as string }] },
    });
  });

  it("the server gets the client's roots, and their changes", async () => {
    const roots = [{ uri: "file:///first", name: "first" }];
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ roots }) });
    await client.waitToHear("notifications/message", ({ data }) => String(data).includes("1 root(s)"));
    expect(await client.toolText("get-roots-list")).toContain("1. first\n   URI: file:///first");
    roots.push({ uri: "file:///second", name: "second" });
    await client.tellRootsChanged();
    await client.waitToHear("notifications/message", ({ data }) => String(data).includes("2 root(s)"));
    expect(await client.toolText("get-roots-list")).toContain("2. second\n   URI: file:///second");
  });

  it.each(["private", "shared"] as const)("the client gets updates and progress, %s", async (lane) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane, answer: () => ({ roots: [] }) });
    await client.subscribe(DOCUMENT);
    await client.toolText("toggle-subscriber-updates");
    expect(await client.waitToHear("notifications/resources/updated")).toEqual({ uri: DOCUMENT });
    await client.toolText("toggle-subscriber-updates");
    await client.unsubscribe(DOCUMENT);

    const seen: unknown[] = [];
    const text = await client.toolText(
      "trigger-long-running-operation",
      { duration: 0.1, steps: 4 },
      { onprogress: (event) => seen.push(event) },
    );
    expect(text).toBe("Long running operation completed. Duration: 0.1 seconds, Steps: 4.");
    expect(seen).toEqual([1, 2, 3, 4].map((progress) => ({ progress, total: 4 })));
    expect(client.errors).toEqual([]);
  });
});
