import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { MODERN_VERSION } from "../support/modern-client.ts";
import { ModernSdkClient, NEGOTIATIONS } from "../support/modern-sdk-client.ts";
import { elicitation } from "../support/questions.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import type { Answer } from "../support/sdk-client-questions.ts";
import { InteropClient } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";

const ALL = { elicitation: { form: {}, url: {} }, sampling: {} };
const ANSWERS: Readonly<Record<string, object>> = {
  "elicitation/create": { action: "accept", content: { name: "Ada", integer: 7 } },
  "sampling/createMessage": { role: "assistant", model: "parrot", content: { type: "text", text: "crab" } },
};

/** Connects a client that answers questions, with the given answers by default. */
async function connect(sidecar: Sidecar, negotiation: (typeof NEGOTIATIONS)[number] = "pinned", answer?: Answer): Promise<ModernSdkClient> {
  const client = await ModernSdkClient.connect(sidecar.url, negotiation, ALL);
  for (const method of ["elicitation/create", "sampling/createMessage"] as const) {
    client.setRequestHandler(method as "sampling/createMessage", async ({ params }) => {
      const question = { method, params: { ...params }, signal: new AbortController().signal, reportProgress: () => Promise.resolve() };
      return ((await answer?.(question)) ?? ANSWERS[method]) as never;
    });
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
    it("its user fills in a form", async () => {
      await using client = await connect(sidecar, negotiation);
      const { content } = await client.callTool({ name: "trigger-elicitation-request", arguments: {} });
      expect(content[1]).toMatchObject({ text: "User inputs:\n- Name: Ada\n- Favorite Integer: 7" });
      expect(client.sent.filter((sent) => sent === "POST tools/call")).toHaveLength(2);
    });

    it("its model answers", async () => {
      await using client = await connect(sidecar, negotiation);
      expect(await client.toolText("trigger-sampling-request", { prompt: "name an animal" })).toContain('"text": "crab"');
    });

    it("its user visits a page, because of a question or of an error", async () => {
      await using client = await connect(sidecar, negotiation, () => ({ action: "accept" }));
      const args = { url: "https://page.example/", elicitationId: `visit-${negotiation}` };
      expect(await client.toolText("trigger-url-elicitation", args)).toContain("completed");
      expect(await client.toolText("trigger-url-elicitation", { ...args, errorPath: true })).toContain("completed");
    });
  });
});

describe("two SDK clients that can answer, and a server that keeps state", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start());

  it("six parallel calls share one process", async () => {
    await using first = await connect(sidecar);
    await using second = await connect(sidecar);
    const counts = await Promise.all([first, second, first, second, first, second].map((client) => client.toolText("count")));
    expect(counts.map(Number).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6]);
  });

  it("a question during slow calls finds its call, and a call during the answer has another process", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("go");
    await using other = await connect(sidecar);
    let pidDuringAnswer = "";
    await using asked = await connect(sidecar, "pinned", async () => {
      pidDuringAnswer = await other.toolText("where");
      return { action: "accept", content: { name: "Ann" } };
    });
    const pid = await other.toolText("where");
    const slow = [1, 2].map(() => other.toolText("wait_for_file", { path }));
    await sidecar.waitFor(() => (sidecar.transcript().split(`waiting for ${path}`).length >= 3 ? true : undefined), "the calls");
    const reply = asked.toolText("ask_all", { questions: [elicitation("name")] });
    await writeFile(path, "");
    expect(await reply).toContain("Ann");
    expect(await Promise.all(slow)).toEqual(["the file is there", "the file is there"]);
    expect(pidDuringAnswer).not.toBe(pid);
    expect((await readStatus(sidecar)).stateless?.asks).toMatchObject({ parked: { now: 0, expired: 0 }, unattributed: 0 });
  });

  it("a session of an older client and a client without one are asked side by side", async () => {
    await using older = await InteropClient.connect("v1", sidecar.url, { answer: () => ({ action: "accept", content: { name: "Old" } }) });
    await using newer = await connect(sidecar, "auto", () => ({ action: "accept", content: { name: "New" } }));
    const questions = [elicitation("name")];
    const [ofOlder, ofNewer] = await Promise.all([older.toolText("ask_all", { questions }), newer.toolText("ask_all", { questions })]);
    expect([ofOlder, ofNewer]).toEqual([expect.stringContaining("Old"), expect.stringContaining("New")]);
  });
});
