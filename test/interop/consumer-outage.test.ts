import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { ConsumerClient, type Outcome } from "../support/consumer-client.ts";
import { crash } from "../support/crash.ts";
import { Gate } from "../support/gate.ts";
import { send } from "../support/http-client.ts";
import { readSeen, timeoutFlags, waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { Sidecar } from "../support/sidecar.ts";

/** A sidecar with a crashed server that cannot restart until the gate opens, and a consumer with a session from before. */
interface Outage extends AsyncDisposable {
  readonly sidecar: Sidecar;
  readonly consumer: ConsumerClient;
  readonly gate: Gate;
}

async function startOutage(...flags: readonly string[]): Promise<Outage> {
  await using stack = new OwnedResources();
  const gate = stack.use(await Gate.create());
  await gate.open();
  const sidecar = stack.use(await Sidecar.start({ mode: "gated", env: gate.env, flags: ["--restart-backoff-ms", "1", ...flags] }));
  const consumer = stack.use(new ConsumerClient(sidecar.url));
  expect(await consumer.call("echo", { text: "before" })).toEqual({ ok: true, text: "before" });
  await gate.close();
  await crash(sidecar);
  await sidecar.waitForLog("mcp server started", (line) => line["generation"] === 2);
  const owned = stack.move();
  return { sidecar, consumer, gate, [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose]() };
}

function texts(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `call ${index}`);
}

describe("the consumer of a pod during a restart", () => {
  it("calls made during the restart get their results in the same session", async () => {
    await using outage = await startOutage();
    const { sidecar, consumer, gate } = outage;
    const calls = texts(100).map((text) => consumer.call("echo", { text }));
    const health = await send(`${sidecar.origin}/healthz`, { method: "GET" });
    expect(health.status).toBe(503);

    await gate.open();
    expect(await Promise.all(calls)).toEqual(texts(100).map((text) => ({ ok: true, text })));
    expect(consumer.sessionsOpened).toBe(1);
  });

  it("the consumer opens its first session as soon as the server has restarted", async () => {
    await using outage = await startOutage();
    using newcomer = new ConsumerClient(outage.sidecar.url);
    const call = newcomer.call("echo", { text: "hello" });
    await send(`${outage.sidecar.origin}/livez`, { method: "GET" });
    await outage.gate.open();
    expect(await call).toEqual({ ok: true, text: "hello" });
    expect(newcomer.sessionsOpened).toBe(1);
  });

  it("the consumer gets http_503 with advice for the model if the restart takes too long", async () => {
    await using outage = await startOutage("--hold-timeout-ms", "50");
    const outcome = await outage.consumer.call("echo", { text: "x" });
    expect(outcome).toEqual({
      ok: false,
      code: "http_503",
      message: "Service returned HTTP 503",
      details: {
        jsonrpc: "2.0",
        id: 2,
        error: {
          code: -32000,
          message: expect.stringMatching(/not ready.*ended by SIGKILL.*was not sent.*safe to retry/) as string,
          data: errorData("UPSTREAM_NOT_READY", { sent: false, retrySafe: true, retryAfterSeconds: 1 }),
        },
      },
    });
  });

  it("calls above the queue's limit get http_503 at once, and the others get results", async () => {
    await using outage = await startOutage("--max-held-requests", "3");
    const { consumer, gate } = outage;
    // One more than can be held: when it is rejected, all others have arrived.
    const calls = texts(4).map((text) => consumer.call("echo", { text }));
    const refused = await Promise.race(calls);
    expect(refused).toMatchObject({ ok: false, code: "http_503", details: { error: { data: { code: "UPSTREAM_NOT_READY" } } } });

    await gate.open();
    const others = (await Promise.all(calls)).filter((outcome) => outcome !== refused);
    expect(others.map(({ ok }) => ok)).toEqual([true, true, true]);
  });

  it("the error of a held call that times out says that it was not sent", async () => {
    await using outage = await startOutage("--request-timeout-ms", "500");
    expect(await outage.consumer.call("echo", { text: "x" })).toEqual({
      ok: false,
      code: "mcp_error",
      message: expect.stringMatching(/did not answer tools\/call of \w+ within 0\.5 s.*was not sent.*safe to retry/) as string,
      details: errorData("REQUEST_TIMEOUT", { sent: false, retrySafe: true, timeoutMs: 500 }),
    });
  });

  it("the error of each of 50 calls in flight at a crash says sent", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--restart-backoff-ms", "1"] });
    using consumer = new ConsumerClient(sidecar.url);
    const observer = await sidecar.client();
    const calls = texts(50).map(() => consumer.call("hang"));
    await waitForHanging(observer, 50);
    await crash(sidecar);
    const ended = {
      ok: false,
      code: "mcp_error",
      message: expect.stringMatching(/stopped during tools\/call \(ended by SIGKILL\).*was sent.*check before you repeat/) as string,
      details: errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, signal: "SIGKILL" }),
    };
    expect(await Promise.all(calls)).toEqual(calls.map(() => ended));
    expect(await consumer.call("echo", { text: "after" })).toEqual({ ok: true, text: "after" });
  });

  it("every call gets its own result or a reason, however often the server crashes", async () => {
    await using sidecar = await Sidecar.start({
      flags: ["--restart-backoff-ms", "1", "--restart-max-ms", "1", "--crash-loop-exits", "1000"],
    });
    using consumer = new ConsumerClient(sidecar.url);
    const crashes = { isOver: false };
    const work = async (worker: number): Promise<Outcome[]> => {
      const surprises: Outcome[] = [];
      for (let round = 0; !crashes.isOver || round === 0; round++) {
        const text = `worker ${worker}, round ${round}`;
        const outcome = await consumer.call("echo", { text });
        const isOwn = outcome.ok && outcome.text === text;
        const isExplained = !outcome.ok && outcome.code === "mcp_error" && outcome.message.includes("(ended by SIGKILL)");
        if (!isOwn && !isExplained) surprises.push(outcome);
      }
      return surprises;
    };
    const working = Promise.all(Array.from({ length: 20 }, (_, worker) => work(worker)));
    for (let generation = 1; generation <= 5; generation++) {
      await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === generation);
      await crash(sidecar);
    }
    crashes.isOver = true;
    expect((await working).flat()).toEqual([]);
    expect(await consumer.call("echo", { text: "after" })).toEqual({ ok: true, text: "after" });
  });

  it("the error of a call that makes the server exit has the exit code", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--restart-backoff-ms", "1"] });
    using consumer = new ConsumerClient(sidecar.url);
    expect(await consumer.call("exit", { code: 7 })).toEqual({
      ok: false,
      code: "mcp_error",
      message: expect.stringMatching(/stopped during tools\/call \(exited with code 7\).*was sent/) as string,
      details: errorData("UPSTREAM_EXITED", { sent: true, retrySafe: false, exitCode: 7 }),
    });
    expect(await consumer.call("echo", { text: "after" })).toEqual({ ok: true, text: "after" });
    expect(consumer.sessionsOpened).toBe(1);
  });

  it("a call that times out is reported as sent, and is cancelled at the server", async () => {
    await using sidecar = await Sidecar.start({ flags: timeoutFlags(500) });
    using consumer = new ConsumerClient(sidecar.url);
    expect(await consumer.call("hang")).toEqual({
      ok: false,
      code: "mcp_error",
      message: expect.stringMatching(/did not answer tools\/call of \w+ within 0\.5 s.*was sent.*check before you repeat/) as string,
      details: errorData("REQUEST_TIMEOUT", { sent: true, retrySafe: false, timeoutMs: 500 }),
    });
    const observer = await sidecar.client();
    const [wireId] = await waitForHanging(observer, 1);
    expect(await readSeen(observer)).toContain(`notifications/cancelled ${wireId}`);
  });

  it("the server gets a cancellation of only the call that the consumer abandons", async () => {
    await using sidecar = await Sidecar.start();
    using patient = new ConsumerClient(sidecar.url);
    using hasty = new ConsumerClient(sidecar.url, { timeoutMs: 1000 });
    const observer = await sidecar.client();
    const waiting = patient.call("hang");
    const [patientId] = await waitForHanging(observer, 1);
    expect(await hasty.call("hang")).toMatchObject({ ok: false, code: "timeout" });

    const [, hastyId] = await waitForHanging(observer, 2);
    await waitForSeen(observer, `notifications/cancelled ${hastyId}`);
    expect(await readSeen(observer)).not.toContain(`notifications/cancelled ${patientId}`);
    await observer.callTool("release");
    expect(await waiting).toEqual({ ok: true, text: `released ${patientId}` });
  });
});
