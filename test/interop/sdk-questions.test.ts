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
