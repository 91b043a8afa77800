import { describe, expect, it } from "vitest";
import { errorData } from "../support/error-reply.ts";
import { ConsumerClient } from "../support/consumer-client.ts";
import { crash } from "../support/crash.ts";
import { Gate } from "../support/gate.ts";
import { send } from "../support/http-client.ts";
import { readSeen, waitForHanging, waitForSeen } from "../support/in-flight.ts";
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
