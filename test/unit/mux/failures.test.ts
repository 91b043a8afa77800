import { describe, expect, it } from "vitest";
import type { SidecarError } from "../../../src/errors.ts";
import {
  noPrivateServerLeft,
  overloaded,
  requestTimedOut,
  responseTooLarge,
  sessionEnded,
  shuttingDown,
  upstreamExited,
  upstreamFailed,
  upstreamNotReady,
} from "../../../src/mux/failures.ts";
import type { UpstreamExit, UpstreamStatus } from "../../../src/upstream/port.ts";

const NOT_SENT = "The request was not sent to it; it is safe to retry.";
const READS = "The request had been sent, but only reads; it is safe to retry.";
const TOOK_EFFECT = "The request had been sent and may have taken effect; check before repeating it.";

const EXIT: UpstreamExit = {
  exitCode: 3,
  signal: undefined,
  generation: 2,
  reason: "exited with code 3",
  at: new Date(0),
  stderrTail: ["secret-free last words"],
  kind: "crash",
};

const STATUS: UpstreamStatus = {
  state: "backing-off",
  generation: 2,
  pid: undefined,
  restarts: 1,
  lastExit: EXIT,
  nextRetryAt: new Date(4200),
};

function content({ code, message, details }: SidecarError): object {
  return { code, message, details };
}

describe("a timeout", () => {
  it("says for a tool call that was sent that it may have taken effect", () => {
    expect(content(requestTimedOut("tools/call", 1500, true))).toEqual({
      code: "REQUEST_TIMEOUT",
      message: `The MCP server did not answer tools/call within 1.5 s. ${TOOK_EFFECT}`,
      details: { sent: true, retrySafe: false, timeoutMs: 1500 },
    });
  });

  it("says for a read that was sent, and for anything that was not, that it is safe to retry", () => {
    expect(content(requestTimedOut("tools/list", 60_000, true))).toEqual({
      code: "REQUEST_TIMEOUT",
      message: `The MCP server did not answer tools/list within 60 s. ${READS}`,
      details: { sent: true, retrySafe: true, timeoutMs: 60_000 },
    });
    expect(content(requestTimedOut("tools/call", 60_000, false))).toEqual({
      code: "REQUEST_TIMEOUT",
      message: `The MCP server did not answer tools/call within 60 s. ${NOT_SENT}`,
      details: { sent: false, retrySafe: true, timeoutMs: 60_000 },
    });
  });
});

describe("an exit of the server", () => {
  it("tells the exit code and whether a retry is safe", () => {
    expect(content(upstreamExited("tools/call", EXIT))).toEqual({
      code: "UPSTREAM_EXITED",
      message: `The MCP server stopped during tools/call (exited with code 3). ${TOOK_EFFECT}`,
      details: { sent: true, retrySafe: false, exitCode: 3 },
    });
  });

  it("tells the signal where there is one", () => {
    const exit = { ...EXIT, exitCode: undefined, signal: "SIGKILL", reason: "ended by SIGKILL" };
    expect(content(upstreamExited("resources/read", exit))).toEqual({
      code: "UPSTREAM_EXITED",
      message: `The MCP server stopped during resources/read (ended by SIGKILL). ${READS}`,
      details: { sent: true, retrySafe: true, signal: "SIGKILL" },
    });
  });

  it("tells an exit code of 0", () => {
    expect(upstreamExited("ping", { ...EXIT, exitCode: 0 }).details).toEqual({ sent: true, retrySafe: true, exitCode: 0 });
  });
});

describe("a server that is not ready", () => {
  it("tells its state, why it ended and when to come back, in whole seconds rounded up", () => {
    expect(content(upstreamNotReady(STATUS, 1000))).toEqual({
      code: "UPSTREAM_NOT_READY",
      message: `The MCP server is not ready: backing-off (last: exited with code 3). ${NOT_SENT}`,
      details: { sent: false, retrySafe: true, retryAfterSeconds: 4 },
    });
  });

  it("asks for a second's pause where it knows no better", () => {
    const starting: UpstreamStatus = { ...STATUS, state: "starting", lastExit: undefined, nextRetryAt: undefined };
    const error = upstreamNotReady(starting, 1000);
    expect(error.message).toBe(`The MCP server is not ready: starting. ${NOT_SENT}`);
    expect(error.details.retryAfterSeconds).toBe(1);
    expect(upstreamNotReady(STATUS, 9000).details.retryAfterSeconds).toBe(1);
  });
});

describe("a server that ends again and again", () => {
  const failed: UpstreamStatus = { ...STATUS, state: "failed" };

  it("tells how it ended last, by its exit code or by its signal, what it said, and when it is tried again", () => {
    const details = { sent: false, retrySafe: true, stderrTail: ["secret-free last words"], retryAfterSeconds: 4 };
    expect(content(upstreamFailed(failed, 1000))).toEqual({
      code: "UPSTREAM_FAILED",
      message: `The MCP server ends again and again (last: exited with code 3). ${NOT_SENT}`,
      details: { ...details, exitCode: 3 },
    });
    const killed = { ...EXIT, exitCode: undefined, signal: "SIGKILL", reason: "ended by SIGKILL" };
    expect(content(upstreamFailed({ ...failed, lastExit: killed }, 1000))).toEqual({
      code: "UPSTREAM_FAILED",
      message: `The MCP server ends again and again (last: ended by SIGKILL). ${NOT_SENT}`,
      details: { ...details, signal: "SIGKILL" },
    });
  });

  it("says of what only reads and was to be sent once more that it had been sent, and is safe to retry", () => {
    const { message, details } = upstreamFailed(failed, 1000, true, "reads");
    expect(message).toContain(READS);
    expect(details).toMatchObject({ sent: true, retrySafe: true });
  });

  it("repeats the end of what it said, and not all of it", () => {
    const stderrTail = Array.from({ length: 20 }, (_, line) => `${line} `.padEnd(512, "x"));
    const { details } = upstreamFailed({ ...failed, lastExit: { ...EXIT, stderrTail } }, 1000);
    expect(details.stderrTail).toEqual(stderrTail.slice(15).map((line) => `${line.slice(0, 300)}…`));
  });

  it("asks for a second's pause while it is tried, and where it is tried no more", () => {
    expect(upstreamFailed({ ...failed, nextRetryAt: undefined }, 1000).details.retryAfterSeconds).toBe(1);
  });
});

describe("other failures", () => {
  it("say that an overloaded server was not sent the request", () => {
    expect(content(overloaded("5 requests are in flight"))).toEqual({
      code: "OVERLOADED",
      message: `The MCP server is overloaded: 5 requests are in flight. ${NOT_SENT}`,
      details: { sent: false, retrySafe: true, retryAfterSeconds: 1 },
    });
  });

  it.each([
    [-5000, 1],
    [0, 1],
    [1001, 2],
    [30_000, 30],
    [600_000, 30],
  ])(
    "say that no server is left for a client, and with %d ms to go until one is idle for too long, to come back in %d s",
    (freeInMs, seconds) => {
      expect(content(noPrivateServerLeft(3, freeInMs))).toEqual({
        code: "TOO_MANY_SERVERS",
        message: `This client needs an MCP server process of its own, and all 3 are in use. ${NOT_SENT}`,
        details: { sent: false, retrySafe: true, retryAfterSeconds: seconds },
      });
    },
  );

  it.each([
    ["tools/call", true, false, TOOK_EFFECT],
    ["tools/list", true, true, READS],
    ["tools/call", false, true, NOT_SENT],
  ])("say at the shutdown, and at the end of a session, what became of %s, sent: %j", (method, sent, retrySafe, outcome) => {
    expect(content(shuttingDown(method, sent))).toEqual({
      code: "SHUTTING_DOWN",
      message: `The sidecar of this MCP server is shutting down. ${outcome}`,
      details: sent ? { sent, retrySafe } : { sent, retrySafe, retryAfterSeconds: 1 },
    });
    expect(content(sessionEnded(method, sent))).toEqual({
      code: "REQUEST_CANCELLED",
      message: `The session of ${method} has ended. ${outcome}`,
      details: { sent, retrySafe },
    });
  });

  it("say that an answer was too large, and that a tool call has run nevertheless", () => {
    expect(content(responseTooLarge("tools/call", 2000, 1000))).toEqual({
      code: "UPSTREAM_RESPONSE_TOO_LARGE",
      message: "The MCP server answered tools/call with 2000 bytes, more than 1000; the answer was discarded. Ask for less at a time.",
      details: { sent: true, retrySafe: false, limitBytes: 1000 },
    });
    expect(responseTooLarge("tools/list", 2000, 1000).details.retrySafe).toBe(true);
  });
});
