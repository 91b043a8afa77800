import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { z } from "zod";
import { DeviceClient } from "../src/device/device-client.ts";
import { DeviceConnection } from "../src/gateway/device-connection.ts";
import { LIMITS } from "../src/settings.ts";
import { type Message, RawDevice } from "./raw-device.ts";

let server: WebSocketServer;
let url: string;
beforeAll(async () => {
  server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => server.close());

describe("the device client", () => {
  it("executes calls one after the other, and answers those that it cannot execute", async () => {
    const gate = Promise.withResolvers<undefined>();
    const order: string[] = [];
    const execute = async ({ name }: { readonly name?: unknown }): Promise<string> => {
      order.push(`begin ${String(name)}`);
      await gate.promise;
      order.push(`end ${String(name)}`);
      if (name === "bad") throw new Error("Camera permission denied");
      return "done";
    };
    const tools = [{ name: "work", description: "", parameters: z.object({ name: z.string() }), execute }];
    const connected = once(server, "connection") as Promise<[WebSocket]>;
    const client = new DeviceClient({ url, tools, log: () => undefined });
    const running = client.run();
    const [socket] = await connected;
    const answers: Message[] = [];
    const parameters = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    const registration = JSON.parse(String((await once(socket, "message"))[0])) as unknown;
    expect(registration).toMatchObject({ type: "register_tools", tools: [{ name: "work", description: "", parameters }] });
    const call = (id: string, name: string, args: object): void =>
      socket.send(JSON.stringify({ type: "tool_call_request", id, name, args }));
    const allAnswered = new Promise<void>((resolve) =>
      socket.on("message", (data) => answers.push(JSON.parse((data as Buffer).toString()) as Message) === 20 && resolve()),
    );
    socket.send("not JSON");
    call("1", "work", { name: "good" });
    call("2", "work", { name: "bad" });
    call("3", "other", {});
    call("4", "work", {});
    for (let id = 5; id <= 20; id++) call(String(id), "work", { name: "more" });
    // Those above the limit of its queue are answered at once.
    while (answers.length < 4) await once(socket, "message");
    expect(answers).toEqual(
      ["17", "18", "19", "20"].map((id) => ({ type: "tool_error", error: "The device is busy", success: false, id })),
    );
    expect(order).toEqual(["begin good"]);
    gate.resolve(undefined);
    await allAnswered;
    expect(order.slice(0, 4)).toEqual(["begin good", "end good", "begin bad", "end bad"]);
    expect(answers.slice(4, 8)).toEqual([
      { type: "tool_result", output: "done", success: true, id: "1" },
      { type: "tool_error", error: "Camera permission denied", success: false, id: "2" },
      { type: "tool_error", error: "No handler registered", success: false, id: "3" },
      { type: "tool_error", error: expect.stringMatching(/expected string/) as string, success: false, id: "4" },
    ]);
    client.stop();
    await running;
  });
});

describe("a connection", () => {
  it("of a device that does not read ends before its messages fill the memory", async () => {
    const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const connected = once(server, "connection") as Promise<[WebSocket]>;
    using device = new RawDevice(url);
    const [socket] = await connected;
    device.socket.pause();
    const connection = new DeviceConnection(
      "pixel",
      socket,
      { ...LIMITS, maxCallsPerDevice: 1000 },
      { onRegister: () => undefined, onEnd: () => undefined },
    );
    const signal = new AbortController().signal;
    const args = { text: "x".repeat(1_000_000) };
    const calls = Array.from({ length: 30 }, (_, index) => connection.call("work", args, { callId: String(index), signal }));
    const errors = (await Promise.all(calls)).map(({ error }) => error);
    stderr.mockRestore();
    expect(errors).toContain("pixel disconnected during the call: does not read its messages");
    expect(errors.at(-1)).toBe("pixel is disconnected");
  });
});
