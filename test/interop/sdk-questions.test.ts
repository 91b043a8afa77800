import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import type { Answer } from "../support/sdk-client-questions.ts";
import { InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

/** A model that repeats what it is asked. */
const repeat: Answer = ({ params }) => {
  const [{ content } = {}] = params["messages"] as { content: object }[];
  return { role: "assistant", model: "parrot", content };
};

describe.each(SDKS)("the %s client that declares what it can be asked", (sdk) => {
  it("is asked for a completion of its model", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: repeat });
    expect(await client.toolText("test_sampling", { prompt: "hello" })).toBe("The model said: hello");
    expect(client.asked).toMatchObject([{ method: "sampling/createMessage", params: { maxTokens: 100 } }]);
  });

  it("is asked for many at once, and each answer goes to its question", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: repeat });
    const prompts = Array.from({ length: 30 }, (_, index) => `prompt ${index}`);
    const texts = await Promise.all(prompts.map((prompt) => client.toolText("test_sampling", { prompt })));
    expect(texts).toEqual(prompts.map((prompt) => `The model said: ${prompt}`));
    expect(client.asked).toHaveLength(30);
    expect(client.errors).toEqual([]);
  });

  it("is asked to fill in a form, with what the server suggests", async () => {
    const content = { name: "Ada", age: 36, score: 1.5, status: "pending", verified: false };
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action: "accept", content }) });
    expect(await client.toolText("test_elicitation_sep1034_defaults")).toBe(`The user said: accept ${JSON.stringify(content)}`);
    expect(client.asked).toMatchObject([
      { method: "elicitation/create", params: { requestedSchema: { properties: { age: { type: "integer", default: 30 } } } } },
    ]);
  });

  it.each(["decline", "cancel"])("answers a form with %s", async (action) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action }) });
    expect(await client.toolText("test_elicitation", { message: "May I?" })).toBe(`The user said: ${action} {}`);
  });

  it("is asked to visit a page, and hears when that is done", async () => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ action: "accept" }) });
    expect(await client.toolText("test_elicitation_url", { elicitationId: "visit-1" })).toBe("The user said: accept");
    expect(client.asked).toMatchObject([{ params: { mode: "url", url: "https://elicitation.example/", elicitationId: "visit-1" } }]);
    expect(await client.waitToHear("notifications/elicitation/complete")).toEqual({ elicitationId: "visit-1" });
  });

  it("is asked for its roots", async () => {
    const roots = [{ uri: "file:///home/ada", name: "Ada's" }, { uri: "file:///srv" }];
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer: () => ({ roots }) });
    expect(JSON.parse(await client.toolText("test_roots"))).toEqual(roots);
  });

  it("refuses with an error that the server gets", async () => {
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

  it("reports progress on what it is asked", async () => {
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

  it("learns that the server does not need the answer any more", async () => {
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
  ])("has the tool %s answered at once, without being asked", async (name, args, message) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane: "shared" });
    const result = await client.callTool(name, args);
    expect(result).toEqual({ content: [{ type: "text", text: expect.stringMatching(message) as string }], isError: true });
    expect(client.asked).toEqual([]);
    expect(client.errors).toEqual([]);
  });
});

describe.each(SDKS)("where all share one server, the %s client that declares what it can be asked", (sdk) => {
  it.each([
    ["test_sampling", { prompt: "hello" }],
    ["test_roots", {}],
  ])("has the tool %s answered at once, without being asked", async (name, args) => {
    await using shared = await Sidecar.start({ command: CONFORMANCE_SERVER, flags: ["--isolation", "shared"] });
    await using client = await InteropClient.connect(sdk, shared.url, { answer: repeat });
    expect(await client.callTool(name, args)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining("-32601") as string }],
    });
    expect(client.asked).toEqual([]);
  });
});
