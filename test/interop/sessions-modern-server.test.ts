import { describe, expect, it } from "vitest";
import { MODERN_CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { inspect } from "../support/inspector.ts";
import type { Answer } from "../support/sdk-client-questions.ts";
import { CLIENTS, InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const COMMAND = [...MODERN_CONFORMANCE_SERVER, "--reject-legacy"];
const TEXT = "A simple text.";

describe("clients of sessions in front of a server that rejects sessions", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: COMMAND }));

  it.each(CLIENTS)("the $sdk client of a $lane server calls a tool and gets its progress", async ({ sdk, lane }) => {
    await using client = await InteropClient.connect(sdk, sidecar.url, { lane });
    expect(await client.toolText("test_simple_text", {})).toBe(TEXT);
    const seen: number[] = [];
    await client.toolText("test_tool_with_progress", {}, { onprogress: ({ progress }) => seen.push(progress) });
    expect(seen).toEqual([0, 50, 100]);
    expect(client.errors).toEqual([]);
  });

  it.each(SDKS)("the %s client answers for its model, its user and its roots", async (sdk) => {
    const roots = [{ uri: "file:///srv" }];
    const answer: Answer = ({ method }) => {
      if (method === "roots/list") return { roots };
      if (method === "elicitation/create") return { action: "accept", content: { name: "Ada" } };
      return { role: "assistant", model: "parrot", content: { type: "text", text: "hello" } };
    };
    await using client = await InteropClient.connect(sdk, sidecar.url, { answer });
    expect(await client.toolText("test_sampling", { prompt: "say hello" })).toBe("The model said: hello");
    expect(await client.toolText("test_elicitation_sep1034_defaults")).toBe('The user said: accept {"name":"Ada"}');
    const texts = await Promise.all(Array.from({ length: 20 }, () => client.toolText("test_input_required_result_multiple_inputs")));
    expect(new Set(texts)).toEqual(new Set([`state-ok: "Ada", {"type":"text","text":"hello"}, ${JSON.stringify(roots)}`]));
    expect(client.asked).toHaveLength(2 + 20 * 3);
    expect(client.errors).toEqual([]);
  });

  it("a client that cannot answer gets the error of the revision", async () => {
    await using client = await InteropClient.connect("v1", sidecar.url, { lane: "shared" });
    await expect(client.callTool("test_sampling", { prompt: "hello" })).rejects.toMatchObject({ code: -32_021 });
  });

  it("the inspector's command line calls a tool", async () => {
    const called = await inspect(sidecar.url, "--method", "tools/call", "--tool-name", "test_simple_text");
    expect(JSON.parse(called.stdout)).toMatchObject({ content: [{ type: "text", text: TEXT }] });
  });
});
