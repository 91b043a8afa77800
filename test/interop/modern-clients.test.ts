import { describe, expect, it } from "vitest";
import { MODERN_CONFORMANCE_SERVER } from "../support/conformance.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { MODERN_VERSION } from "../support/modern-client.ts";
import { ModernSdkClient, NEGOTIATIONS } from "../support/modern-sdk-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";

const UPDATED = "notifications/resources/updated";

interface ServerUnderTest {
  readonly command: readonly string[];
  readonly call: { readonly name: string; readonly args: object; readonly text: string };
  readonly progress: { readonly name: string; readonly args: object; readonly events: readonly object[] };
  readonly resource: { readonly uri: string; readonly text: RegExp };
  readonly prompt: { readonly name: string; readonly args: Readonly<Record<string, string>>; readonly text: string };
  /** A tool that changes a list, and the list. */
  readonly change: { readonly name: string; readonly args: object; readonly list: "tools" | "resources" };
  /** A resource, and a tool that makes the server send an update of it. */
  readonly update: { readonly uri: string; readonly tool: string };
  /** A tool that shows progress, but does not answer in the time of a test. */
  readonly endless: { readonly name: string; readonly args: object };
}

const everything: ServerUnderTest = {
  command: EVERYTHING,
  call: { name: "get-sum", args: { a: 2, b: 40 }, text: "The sum of 2 and 40 is 42." },
  progress: {
    name: "trigger-long-running-operation",
    args: { duration: 0.1, steps: 2 },
    events: [1, 2].map((progress) => ({ progress, total: 2 })),
  },
  resource: { uri: "demo://resource/dynamic/text/7", text: /^Resource 7: / },
  prompt: { name: "args-prompt", args: { city: "Bern" }, text: "What's weather in Bern?" },
  change: { name: "gzip-file-as-resource", args: { name: "a.gz", data: "data:text/plain,packed" }, list: "resources" },
  update: { uri: "demo://resource/static/document/features.md", tool: "toggle-subscriber-updates" },
  endless: { name: "trigger-long-running-operation", args: { duration: 3600, steps: 36_000 } },
};

const secondSdk: ServerUnderTest = {
  command: MODERN_CONFORMANCE_SERVER,
  call: { name: "test_simple_text", args: {}, text: "A simple text." },
  progress: { name: "test_tool_with_progress", args: {}, events: [0, 50, 100].map((progress) => ({ progress, total: 100 })) },
  resource: { uri: "test://template/7/data", text: /^The data of 7\.$/ },
  prompt: { name: "test_prompt_with_arguments", args: { arg1: "a", arg2: "b" }, text: "A prompt with 'a' and 'b'." },
  change: { name: "test_trigger_tool_change", args: {}, list: "tools" },
  update: { uri: "test://watched-resource", tool: "test_change_watched_resource" },
  endless: { name: "test_wait_for_cancellation", args: {} },
};

const SERVERS: readonly (readonly [name: string, era: "legacy" | "modern", server: ServerUnderTest])[] = [
  ["server-everything, which knows only sessions", "legacy", everything],
  ["a server of both eras", "modern", secondSdk],
  ["a server that rejects sessions", "modern", { ...secondSdk, command: [...secondSdk.command, "--reject-legacy"] }],
];

describe.each(SERVERS)("a client of 2026-07-28 in front of %s", async (_name, era, server) => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: server.command }));

  describe.each(NEGOTIATIONS)("the %s client", (negotiation) => {
    const connect = (): Promise<ModernSdkClient> => ModernSdkClient.connect(sidecar.url, negotiation);

    it("the client connects with one discovery, calls a tool with progress, and reads a resource and a prompt", async () => {
      const { call, progress, resource, prompt } = server;
      await using client = await connect();
      expect(client.getNegotiatedProtocolVersion()).toBe(MODERN_VERSION);
      expect(await client.toolText(call.name, { ...call.args })).toBe(call.text);
      expect(client.sent.filter((sent) => sent !== "POST tools/list")).toEqual(["POST server/discover", "POST tools/call"]);
      expect(await readStatus(sidecar)).toMatchObject({ sessions: 0, stateless: { serverEra: era } });
      const seen: object[] = [];
      await client.callTool({ name: progress.name, arguments: { ...progress.args } }, { onprogress: (event) => seen.push(event) });
      expect(seen).toEqual(progress.events);
      expect((await client.readResource({ uri: resource.uri })).contents).toMatchObject([
        { uri: resource.uri, text: expect.stringMatching(resource.text) as string },
      ]);
      const { messages } = await client.getPrompt({ name: prompt.name, arguments: { ...prompt.args } });
      expect(messages).toEqual([{ role: "user", content: { type: "text", text: prompt.text } }]);
      expect(client.errors).toEqual([]);
    });

    it("a subscription delivers changes of its list and its resource, to its client only", async () => {
      const { change, update } = server;
      await using client = await connect();
      await using other = await connect();
      const filter = { [`${change.list}ListChanged`]: true, resourceSubscriptions: [update.uri] };
      const subscription = await client.listen(filter);
      expect(subscription.honoredFilter).toEqual(filter);
      await other.callTool({ name: change.name, arguments: { ...change.args } });
      await client.waitToHear(`notifications/${change.list}/list_changed`);
      await client.toolText(update.tool);
      expect(await client.waitToHear(UPDATED)).toMatchObject({ uri: update.uri });
      expect(other.heard).toEqual([]);
      await subscription.close();
      expect(await subscription.closed).toBe("local");
      // server-everything would go on.
      if (server === everything) await client.toolText(update.tool);
    });

    it("a call that the client cancels is cancelled at the server", async () => {
      const { name, args } = server.endless;
      await using client = await connect();
      const leaving = new AbortController();
      const logged = sidecar.logLines.length;
      const onprogress = (): void => leaving.abort("enough");
      await expect(client.callTool({ name, arguments: { ...args } }, { signal: leaving.signal, onprogress })).rejects.toThrow("enough");
      const isNew = (line: (typeof sidecar.logLines)[number]): boolean => sidecar.logLines.indexOf(line) >= logged;
      await sidecar.waitForLog("request given up", (line) => isNew(line) && line["reason"] === "client disconnected");
      // server-everything does not show it.
      if (server !== everything) await sidecar.waitForLog("the call is cancelled", isNew);
      expect(await client.toolText(server.call.name, { ...server.call.args })).toBe(server.call.text);
    });
  });
});

const ALL = { elicitation: { form: {}, url: {} }, sampling: {} };
const ANSWERS: Readonly<Record<string, object>> = {
  "elicitation/create": { action: "accept", content: { name: "Ada", integer: 7 } },
  "sampling/createMessage": { role: "assistant", model: "parrot", content: { type: "text", text: "crab" } },
};

/** Connects a client that gives these answers by method. */
async function connectAnswering(sidecar: Sidecar, negotiation: (typeof NEGOTIATIONS)[number], answers = ANSWERS): Promise<ModernSdkClient> {
  const client = await ModernSdkClient.connect(sidecar.url, negotiation, ALL);
  for (const method of ["elicitation/create", "sampling/createMessage"] as const) {
    client.setRequestHandler(method as "sampling/createMessage", () => Promise.resolve(answers[method] as never));
  }
  return client;
}

describe("server-everything, which knows only sessions, asks a client of 2026-07-28", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));

  it.each([{}, { elicitation: {} }, { elicitation: { url: {} } }, { sampling: {} }, ALL])(
    "a client that declares %j is offered all tools that a session would offer it",
    async (capabilities) => {
      await using client = await ModernSdkClient.connect(sidecar.url, "auto", capabilities);
      expect(client.getNegotiatedProtocolVersion()).toBe(MODERN_VERSION);
      const session = await sidecar.client({ capabilities });
      const { result = {} } = await session.request("tools/list");
      // A client without a session cannot use the tasks of a server with sessions.
      const ofSession = (result["tools"] as { name: string; execution?: { taskSupport: string } }[]).filter(
        ({ execution }) => execution?.taskSupport !== "required",
      );
      const { tools } = await client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(ofSession.map(({ name }) => name));
      await session.end();
    },
  );

  describe.each(NEGOTIATIONS)("the %s client", (negotiation) => {
    it("its user fills in a form, and its model answers", async () => {
      await using client = await connectAnswering(sidecar, negotiation);
      const { content } = await client.callTool({ name: "trigger-elicitation-request", arguments: {} });
      expect(content[1]).toMatchObject({ text: "User inputs:\n- Name: Ada\n- Favorite Integer: 7" });
      expect(client.sent.filter((sent) => sent === "POST tools/call")).toHaveLength(2);
      expect(await client.toolText("trigger-sampling-request", { prompt: "name an animal" })).toContain('"text": "crab"');
    });

    it("its user visits a page, because of a question or of an error", async () => {
      await using client = await connectAnswering(sidecar, negotiation, { "elicitation/create": { action: "accept" } });
      const args = { url: "https://page.example/", elicitationId: `visit-${negotiation}` };
      expect(await client.toolText("trigger-url-elicitation", args)).toContain("completed");
      expect(await client.toolText("trigger-url-elicitation", { ...args, errorPath: true })).toContain("completed");
    });
  });
});
