import { describe, expect, it } from "vitest";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { RestartableSidecar } from "../support/restartable-sidecar.ts";
import { receivedInitializes } from "../support/server-record.ts";
import { KEYED } from "../support/session-keys.ts";
import type { StartOptions } from "../support/sidecar.ts";
import type { ForeignLibrary } from "./foreign-client.ts";
import { LIBRARIES } from "./libraries.ts";

const ELICITATION = {
  method: "elicitation/create",
  params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } },
};
const DECLINE = { result: { action: "decline" } };

interface Case extends ForeignLibrary {
  readonly modern: "on" | "off";
}

/** Each library as it is, and with a sidecar that offers sessions only. */
const CASES = LIBRARIES.flatMap((library): readonly Case[] => [
  { ...library, modern: "on" },
  { ...library, modern: "off", era: "sessions" },
]);

function optionsFor({ modern }: Case): StartOptions {
  return { flags: ["--request-log", "all", "--modern", modern], env: KEYED };
}

describe.each(CASES)("$name ($era, MODERN=$modern), after a kill of the sidecar", (each) => {
  it("its calls go on without initialize", async () => {
    await using sidecar = await RestartableSidecar.start(optionsFor(each));
    await using client = await each.connect(sidecar.url);
    expect(await client.toolNames()).toContain("echo");
    expect(await client.toolText("echo", { text: "first" })).toBe("first");
    await sidecar.current.waitForLog("request ended", (line) => line["method"] === "tools/call");
    expect(sidecar.requests("initialize").length > 0).toBe(each.era === "sessions");
    for (let kills = 0; kills < 2; kills++) {
      await sidecar.killAndRestart();
      expect(await client.toolText("echo", { text: "again" })).toBe("again");
      expect(await client.toolNames()).toContain("echo");
      await sidecar.current.waitForLog("request ended", (line) => line["method"] === "tools/list");
      expect(sidecar.requests("initialize")).toEqual([]);
    }
  });
});

describe.each(CASES.filter(({ canElicit }) => canElicit))("$name ($era, MODERN=$modern) with elicitation", (each) => {
  it("its next server asks it as the first one did, after a kill of the sidecar", async () => {
    await using sidecar = await RestartableSidecar.start(optionsFor(each));
    await using client = await each.connect(sidecar.url, { elicits: true });
    const told = await receivedInitializes(client);
    expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject(DECLINE);
    await sidecar.killAndRestart();
    expect(JSON.parse(await client.toolText("ask", ELICITATION))).toMatchObject(DECLINE);
    expect(await receivedInitializes(client)).toEqual(told);
    await sidecar.current.waitForLog("request ended", (line) => line["tool"] === "lines");
    expect(sidecar.requests("initialize")).toEqual([]);
  });
});

describe.each(CASES.filter(({ era, resumes }) => era === "sessions" && resumes))("$name (MODERN=$modern) with a stream", (each) => {
  it("its call in flight ends with an error, after a kill of the sidecar", async () => {
    await using sidecar = await RestartableSidecar.start({
      ...optionsFor(each),
      env: { ...KEYED, CLAW_MCP_STDIO_STREAM_AFTER_MS: "1" },
    });
    // Clients try to resume for a few seconds only.
    await using proxy = await CuttingProxy.start(sidecar.current.origin, { waitsForTarget: true });
    await using client = await each.connect(proxy.url);
    const call = client.toolText("wait_for_file", { path: "/never" }).catch(String);
    await proxy.waitForRequests(1, ({ method, isStream }) => method === "tools/call" && isStream);
    await sidecar.killAndRestart();
    expect(await call).toContain("The response is lost here");
    expect(await client.toolText("echo", { text: "again" })).toBe("again");
  });
});
