import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { MODERN_VERSION } from "../support/modern-client.ts";
import { ModernSdkClient, NEGOTIATIONS } from "../support/modern-sdk-client.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { Sidecar } from "../support/sidecar.ts";

const ALL = { elicitation: { form: {}, url: {} }, sampling: {} };
const ANSWERS: Readonly<Record<string, object>> = {
  "elicitation/create": { action: "accept", content: { name: "Ada", integer: 7 } },
  "sampling/createMessage": { role: "assistant", model: "parrot", content: { type: "text", text: "crab" } },
};

/** Connects a client that gives these answers by method. */
async function connect(sidecar: Sidecar, negotiation: (typeof NEGOTIATIONS)[number], answers = ANSWERS): Promise<ModernSdkClient> {
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
      await using client = await connect(sidecar, negotiation);
      const { content } = await client.callTool({ name: "trigger-elicitation-request", arguments: {} });
      expect(content[1]).toMatchObject({ text: "User inputs:\n- Name: Ada\n- Favorite Integer: 7" });
      expect(client.sent.filter((sent) => sent === "POST tools/call")).toHaveLength(2);
      expect(await client.toolText("trigger-sampling-request", { prompt: "name an animal" })).toContain('"text": "crab"');
    });

    it("its user visits a page, because of a question or of an error", async () => {
      await using client = await connect(sidecar, negotiation, { "elicitation/create": { action: "accept" } });
      const args = { url: "https://page.example/", elicitationId: `visit-${negotiation}` };
      expect(await client.toolText("trigger-url-elicitation", args)).toContain("completed");
      expect(await client.toolText("trigger-url-elicitation", { ...args, errorPath: true })).toContain("completed");
    });
  });
});
