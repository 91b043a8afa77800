import { describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import { readSeen } from "../support/fixture-server.ts";
import { LANE_CLIENTS } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";

function echo(id: number): object {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { text: String(id) } } };
}

/** The expected rejection, with this retry delay. */
function rateLimited(id: number, retryAfterSeconds: number): object {
  return errorReply(429, -32000, "RATE_LIMITED", { id, data: { sent: false, retrySafe: true, retryAfterSeconds } });
}

describe.each(LANE_CLIENTS)("the call rate of a session ($lane)", ({ connect }) => {
  it("a call above the rate is rejected with a retry time; other sessions are unaffected", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "3"] });
    const client = await connect(sidecar);
    // The connection to a private server has already made one call.
    const made = client.childPid === 0 ? 0 : 1;
    for (let id = made; id < 3; id++) expect((await client.post(echo(id))).status).toBe(200);
    const refused = await client.post(echo(4));
    expect(readError(refused)).toStrictEqual(rateLimited(4, 20));
    expect(refused.headers["retry-after"]).toBe("20");
    expect(refused.body).toContain(
      "Rate limit reached: 3 per minute for tool calls of this client. The call was not sent; it is safe to retry in 20 s.",
    );
    expect((await client.request("tools/list")).result).toBeDefined();
    const other = await connect(sidecar);
    expect((await other.post(echo(5))).status).toBe(200);
    const { counters, lanes } = await readStatus(sidecar);
    const { requests, answers } = counters as unknown as { requests: { accepted: number; refused: object }; answers: { results: number } };
    expect(requests.refused).toEqual({ RATE_LIMITED: 1 });
    expect([answers, requests.accepted]).toEqual([
      { results: requests.accepted, errors: 0, dismissed: 0, unread: 0, failures: {} },
      answers.results,
    ]);
    expect([lanes.shared.requestsInFlight, lanes.private.requestsInFlight]).toEqual([0, 0]);
  });
});

describe("the call rate of a tool", () => {
  it.each([
    ["--tool-calls-per-minute", "echo=1"],
    ["--tool-concurrency", "echo=1"],
    ["--argument-check", "enforce"],
  ])("a call whose name is no text does not reach the server with %s %s", async (...flags) => {
    await using sidecar = await HttpBench.start({ flags });
    const client = await sidecar.client();
    for (const name of [["echo"], undefined]) {
      expect((await client.request("tools/call", { name, arguments: {} })).error?.data).toMatchObject({ code: "TOOL_NOT_FOUND" });
    }
    expect((await readSeen(client)).filter((method) => method === "tools/call")).toHaveLength(1);
  });

  it("a call that another limit rejects does not count", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--session-calls-per-minute", "2", "--max-session-requests", "1"] });
    const client = await sidecar.client();
    const waiting = client.post({ jsonrpc: "2.0", id: "w", method: "tools/call", params: { name: "hang", arguments: {} } });
    // The ping is rejected once the call is in flight.
    while (!(await client.post({ jsonrpc: "2.0", id: "p", method: "ping" })).body.includes("SESSION_OVERLOADED"));
    expect((await client.post(echo(1))).body).toContain("SESSION_OVERLOADED");
    await client.notify("notifications/cancelled", { requestId: "w" });
    await waiting;
    expect([(await client.post(echo(2))).status, (await client.post(echo(3))).status]).toEqual([200, 429]);
  });
});
