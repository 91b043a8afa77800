import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { WebSocketServer, type WebSocket } from "ws";
import { z } from "zod";
import { DeviceClient } from "../src/device/device-client.ts";
import { DeviceConnection } from "../src/gateway/device-connection.ts";
import { Gateway } from "../src/gateway/gateway.ts";
import { limitedLog } from "../src/log.ts";
import { ToolRegistry } from "../src/registry.ts";
import { LIMITS, readSettings } from "../src/settings.ts";
import { type Message, RawDevice, statusOf, tool } from "./raw-device.ts";

const EVENTS = { onRegister: () => undefined, onUnasked: () => undefined, onEnd: () => undefined };

let server: WebSocketServer;
let url: string;
/** Of the log. */
const lines: string[] = [];
beforeAll(async () => {
  server = new WebSocketServer({ host: "127.0.0.1", port: 0 });
  await once(server, "listening");
  vi.spyOn(process.stderr, "write").mockImplementation((text) => lines.push(String(text)) > 0);
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
});
afterAll(() => {
  vi.restoreAllMocks();
  server.close();
});

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
    const client = new DeviceClient({ url, tools });
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

  it("ends its connection if the gateway sends calls and reads no answers", async () => {
    const execute = (): string => "x".repeat(2_000_000);
    const tools = [{ name: "work", description: "", parameters: z.object({}), execute }];
    const connected = once(server, "connection") as Promise<[WebSocket]>;
    const client = new DeviceClient({ url, tools });
    const running = client.run();
    const [socket] = await connected;
    socket.pause();
    for (let id = 0; id < 16; id++) socket.send(JSON.stringify({ type: "tool_call_request", id: `${id}`, name: "work", args: {} }));
    await vi.waitFor(() => expect(lines).toContain("the gateway does not read its messages\n"), 120_000);
    client.stop();
    socket.terminate();
    await running;
  });

  it("ignores calls with long ids, and writes few and plain lines about what the gateway sends", async () => {
    const connected = once(server, "connection") as Promise<[WebSocket]>;
    const client = new DeviceClient({ url, tools: [] });
    const running = client.run();
    const [socket] = await connected;
    await once(socket, "message");
    lines.length = 0;
    const rejected = Array.from({ length: 1000 }, () => ({ name: "a\u001b[2J\nFAKE", reason: "\u202e".repeat(1000) }));
    socket.send(JSON.stringify({ type: "tools_registered", count: 1, registered: 0, rejected }));
    for (const id of ["i".repeat(201), "1"]) socket.send(JSON.stringify({ type: "tool_call_request", id, name: "work", args: {} }));
    expect(JSON.parse(String((await once(socket, "message"))[0]))).toMatchObject({ id: "1" });
    expect(lines).toHaveLength(21);
    for (const line of lines) expect(line).toMatch(/^[ -~]{1,500}\n$/);
    client.stop();
    await running;
  });
});

describe("the gateway without tokens", () => {
  it("keeps its devices, and lets them register again, however many names try to connect", async () => {
    const gateway = await Gateway.listen(
      readSettings({ GATEWAY_ADDR: "127.0.0.1:0", MAX_DEVICES: "2" }),
      new ToolRegistry(() => undefined),
    );
    const gatewayUrl = /ws:.*/.exec(lines.findLast((line) => line.startsWith("gateway listening at")) ?? "")?.[0] ?? "";
    using device = await RawDevice.with(gatewayUrl, "device", []);
    using second = new RawDevice(gatewayUrl, "second");
    await once(second.socket, "open");
    // The minutes of both devices have ended.
    const laterMs = performance.now() + 61_000;
    const clock = vi.spyOn(performance, "now").mockReturnValue(laterMs);
    for (let count = 0; count < 10; count++) await statusOf(`${gatewayUrl}?device=refused-${count}`);
    expect(await second.register([tool("poke")])).toMatchObject({ registered: 1 });
    second.socket.terminate();
    await vi.waitFor(() => expect(lines).toContain("second: disconnected\n"), 30_000);
    for (let count = 0; count < 3; count++) {
      const invented = new RawDevice(gatewayUrl, `invented-${count}`);
      await once(invented.socket, "open");
      invented.socket.terminate();
      await vi.waitFor(() => expect(lines).toContain(`invented-${count}: disconnected\n`), 30_000);
    }
    expect(await statusOf(`${gatewayUrl}?device=invented`)).toBe(429);
    expect(await device.register([tool("poke")])).toMatchObject({ registered: 1 });
    using again = await RawDevice.with(gatewayUrl, "device", [tool("poke")]);
    expect(await device.closed).toMatchObject({ code: 4001 });
    again.socket.terminate();
    clock.mockRestore();
    await new Promise<void>((resolve) => gateway.close(resolve));
  });
});

describe("a connection", () => {
  it("of a device that reads slowly fails the calls that do not fit, and ends if it never reads", async () => {
    const connected = once(server, "connection") as Promise<[WebSocket]>;
    using device = new RawDevice(url);
    const [socket] = await connected;
    device.socket.pause();
    const limits = { ...LIMITS, maxCallsPerDevice: 1000 };
    const connection = new DeviceConnection("pixel", socket, limits, EVENTS);
    const signal = new AbortController().signal;
    const args = { text: "x".repeat(1_000_000) };
    const calls = Array.from({ length: 30 }, (_, index) => connection.call("work", args, { callId: String(index), signal }));
    expect(await calls.at(-1)).toMatchObject({ error: "pixel still reads earlier calls; try again later" });
    device.answerAll(() => "done");
    device.socket.resume();
    const outputs = (await Promise.all(calls)).filter(({ success }) => success).map(({ output }) => output);
    expect(outputs.length).toBeGreaterThan(0);
    expect(new Set(outputs)).toEqual(new Set(["done"]));
    device.socket.pause();
    const last = connection.call("work", {}, { callId: "last", signal });
    for (let count = 0; count < 30; count++) connection.send({ type: "result_acknowledged", id: args.text });
    expect(await last).toMatchObject({ error: "Channel closed: pixel disconnected during the call: does not read its messages" });
    expect(await connection.call("work", {}, { callId: "later", signal })).toMatchObject({ error: "pixel is disconnected" });
  });

  it("ends at its time limit if its device does not register", async () => {
    const limits = { ...LIMITS, registrationTimeoutMs: 50 };
    const ends: Promise<unknown>[] = [];
    const connect = async (isRegistered: boolean): Promise<RawDevice> => {
      const connected = once(server, "connection") as Promise<[WebSocket]>;
      const device = new RawDevice(url);
      const [socket] = await connected;
      ends.push(once(socket, "close"));
      new DeviceConnection("pixel", socket, limits, EVENTS).isRegistered = isRegistered;
      return device;
    };
    using registered = await connect(true);
    using silent = await connect(false);
    expect(await silent.closed).toEqual({ code: 1008, reason: "has not registered its tools in time" });
    await registered.flushed();
    registered.socket.terminate();
    await Promise.all(ends);
  });
});

describe("the limited log", () => {
  it("writes a line at once, then one each second with the number of lines", () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    try {
      lines.length = 0;
      const write = limitedLog();
      for (let count = 0; count <= 100; count++) write(`line ${count}`);
      expect(lines).toEqual(["line 0\n"]);
      vi.advanceTimersByTime(1000);
      expect(lines.slice(1)).toEqual(["line 100 (the last of 100)\n"]);
      vi.advanceTimersByTime(5000);
      write("later");
      expect(lines.slice(2)).toEqual(["later\n"]);
    } finally {
      vi.useRealTimers();
    }
  });
});
