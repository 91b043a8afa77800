import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { Answer } from "../support/sdk-client-questions.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

/** A model that repeats its prompt. */
const repeat: Answer = ({ params }) => {
  const [{ content } = {}] = params["messages"] as { content: object }[];
  return { role: "assistant", model: "parrot", content };
};

describe.each(SDKS)("the %s client that declares capabilities for server requests", (sdk) => {
  it("the client's model answers a sampling request", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: repeat });
    expect(await client.toolText("test_sampling", { prompt: "hello" })).toBe("The model said: hello");
    expect(client.asked).toMatchObject([{ method: "sampling/createMessage", params: { maxTokens: 100 } }]);
  });

  it("each of many simultaneous requests gets its own response", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: repeat });
    const prompts = Array.from({ length: 30 }, (_, index) => `prompt ${index}`);
    const texts = await Promise.all(prompts.map((prompt) => client.toolText("test_sampling", { prompt })));
    expect(texts).toEqual(prompts.map((prompt) => `The model said: ${prompt}`));
    expect(client.asked).toHaveLength(30);
    expect(client.errors).toEqual([]);
  });

  it("the user fills in a form that has the server's default values", async () => {
    const content = { name: "Ada", age: 36, score: 1.5, status: "pending", verified: false };
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action: "accept", content }) });
    expect(await client.toolText("test_elicitation_sep1034_defaults")).toBe(`The user said: accept ${JSON.stringify(content)}`);
    expect(client.asked).toMatchObject([
      { method: "elicitation/create", params: { requestedSchema: { properties: { age: { type: "integer", default: 30 } } } } },
    ]);
  });

  it.each(["decline", "cancel"])("the user can answer a form with %s", async (action) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action }) });
    expect(await client.toolText("test_elicitation", { message: "May I?" })).toBe(`The user said: ${action} {}`);
  });

  it("the user visits a page, and the client is notified of its completion", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action: "accept" }) });
    expect(await client.toolText("test_elicitation_url", { elicitationId: "visit-1" })).toBe("The user said: accept");
    expect(client.asked).toMatchObject([{ params: { mode: "url", url: "https://elicitation.example/", elicitationId: "visit-1" } }]);
    expect(await client.waitToHear("notifications/elicitation/complete")).toEqual({ elicitationId: "visit-1" });
  });

  it("the client's roots reach the server", async () => {
    const roots = [{ uri: "file:///home/ada", name: "Ada's" }, { uri: "file:///srv" }];
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ roots }) });
    expect(JSON.parse(await client.toolText("test_roots"))).toEqual(roots);
  });

  it("the client's error reaches the server", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      answer: () => {
        throw Object.assign(new Error("the user has rejected it"), { code: -1 });
      },
    });
    const result = await client.callTool("test_sampling", { prompt: "hello" });
    expect(result).toEqual({
      content: [{ type: "text", text: expect.stringMatching(/-1: .*the user has rejected it/) as string }],
      isError: true,
    });
  });

  it("the client's progress on a request reaches the server", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      answer: async (question) => {
        for (const progress of [1, 2, 3]) {
          await question.reportProgress(progress);
          await client.waitToHear("notifications/message", ({ data }) => data === progress);
        }
        return repeat(question);
      },
    });
    expect(await client.toolText("test_sampling_with_progress")).toBe("The model is parrot");
    expect(client.heard.map(({ params }) => params["data"])).toEqual([1, 2, 3]);
  });

  it("the client is notified if the server cancels its request", async () => {
    const withdrawn = Promise.withResolvers<unknown>();
    await using client = await InteropClient.connect(sdk, sidecar.url, {
      answer: async (question) => {
        question.signal.addEventListener("abort", () => withdrawn.resolve(question.signal.reason));
        await question.reportProgress(1);
        await withdrawn.promise;
        return repeat(question);
      },
    });
    expect(await client.toolText("test_sampling_withdrawn")).toContain("not needed any more");
    expect(await withdrawn.promise).toBe("not needed any more");
    expect(await client.ping()).toEqual({});
  });
});

describe.each(SDKS)("the %s client that declares nothing", (sdk) => {
  it.each([
    ["test_sampling", { prompt: "hello" }, /-32601.*sampling\/createMessage/],
    ["test_roots", {}, /-32601.*roots\/list/],
    ["test_elicitation", { message: "May I?" }, /does not support form elicitation/],
  ])("the tool %s fails at once, without a request to the client", async (name, args, message) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    const result = await client.callTool(name, args);
    expect(result).toEqual({ content: [{ type: "text", text: expect.stringMatching(message) as string }], isError: true });
    expect(client.asked).toEqual([]);
    expect(client.errors).toEqual([]);
  });
});

describe("a client that declares capabilities, if all clients share a server", async () => {
  const shared = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER, flags: ["--isolation", "shared"] }));
  const tools = [
    ["test_sampling", { prompt: "hello" }],
    ["test_roots", {}],
  ] as const;

  it.each(SDKS)("tools that ask the %s client fail at once, without a request to it", async (sdk) => {
    await using client = await InteropClient.connect(sdk, shared.url, { answer: repeat });
    for (const [name, args] of tools) {
      expect(await client.callTool(name, args)).toMatchObject({
        isError: true,
        content: [{ text: expect.stringContaining("-32601") as string }],
      });
    }
    expect(client.asked).toEqual([]);
  });
});
