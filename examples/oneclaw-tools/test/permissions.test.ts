import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SDKS } from "../../../test/support/sdk-clients.ts";
import { failure } from "../src/tool.ts";
import { decide, readQuestion, success, ToolServer } from "./tool-server.ts";

const DENIED = failure("permission_denied", "Permission ACCESS_FINE_LOCATION was denied by the user");

describe("permissions", () => {
  let server: ToolServer;
  beforeAll(async () => {
    server = await ToolServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  it.each(SDKS)("the client %s of sessions is asked once, and its answer is remembered", async (sdk) => {
    let asked = 0;
    const answer = (): object => {
      asked += 1;
      return decide("Allow");
    };
    await using client = await server.session(answer, sdk);
    const calls = Array.from({ length: 4 }, () => client.call("get_location"));
    expect(await Promise.all(calls)).toEqual(Array.from({ length: 4 }, () => success("52.5, 13.4")));
    expect(await client.call("get_location")).toEqual(success("52.5, 13.4"));
    expect(asked).toBe(1);
  });

  it("a client without a session is asked for each call, and grants nothing to others", async () => {
    let asked = 0;
    await using generous = await server.stateless(() => {
      asked += 1;
      return decide("Allow this time");
    });
    await using strict = await server.stateless(() => decide("Deny"));
    for (let round = 1; round <= 2; round += 1) {
      expect(await generous.call("get_location")).toEqual(success("52.5, 13.4"));
      expect(await strict.call("get_location")).toEqual(DENIED);
      expect(asked).toBe(round);
    }
  });

  it("a call without a session asks for all missing permissions at once", async () => {
    const asked: string[] = [];
    await using client = await server.stateless((message) => {
      asked.push(message);
      return decide("Allow this time");
    });
    expect(await client.call("take_picture")).toEqual(success("picture.jpg"));
    expect(asked).toEqual(["The tool take_picture needs the permission CAMERA, ACCESS_FINE_LOCATION."]);
  });

  it("a question that is withdrawn with its call is asked again for the next call", async () => {
    const questions: string[] = [];
    const first = Promise.withResolvers<void>();
    await using client = await server.session(({ params }) => {
      questions.push(readQuestion(params).message);
      first.resolve();
      return questions.length === 1 ? new Promise<never>(() => {}) : decide("Allow");
    });
    const controller = new AbortController();
    const cancelled = client.call("get_location", {}, controller.signal).catch(() => "cancelled");
    await first.promise;
    const waiting = client.call("get_location");
    controller.abort();
    expect(await cancelled).toBe("cancelled");
    expect(await waiting).toEqual(success("52.5, 13.4"));
    expect(questions).toHaveLength(2);
  });

  it("an answer that was not offered is not a grant", async () => {
    const unanswered = failure(
      "permission_denied",
      "Permission ACCESS_FINE_LOCATION was not granted, because the client returned no valid answer in time",
    );
    for (const answer of [decide("Yes"), decide("Allow this time"), { action: "accept", content: {} }, { action: "maybe" }]) {
      await using session = await server.session(() => answer);
      expect(await session.call("get_location")).toEqual(unanswered);
    }
    for (const answer of [decide("Always"), decide("Deny and don't ask again"), { action: "accept", content: { decision: 7 } }]) {
      await using stateless = await server.stateless(() => answer);
      expect(await stateless.call("get_location")).toEqual(unanswered);
    }
  });

  it("with ISOLATION=shared or CHILD_ERA=modern, both kinds of clients can answer or are refused", async () => {
    await using modern = await ToolServer.start({}, undefined, ["--child-era", "modern"]);
    await using session = await modern.session(({ params }) => decide(readQuestion(params).choices[0] ?? ""));
    expect(await session.call("get_location")).toEqual(success("52.5, 13.4"));
    await using other = await modern.session(() => decide("Deny"));
    expect(await other.call("get_location")).toEqual(DENIED);
    await using shared = await ToolServer.start({}, undefined, ["--isolation", "shared"]);
    await using refused = await shared.session(() => decide("Allow"));
    expect(await refused.call("get_location")).toMatchObject({ error_type: "permission_denied" });
  });
});
