import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { beforeAll, afterAll, describe, expect, it } from "vitest";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { ToolRegistry, type ToolResult } from "../src/registry.ts";
import { LIMITS, readSettings } from "../src/settings.ts";
import { GATEWAY, NodeProgram } from "./gateway-server.ts";
import { RawDevice, statusOf, tool } from "./raw-device.ts";

let folder: TempDir;
beforeAll(async () => {
  folder = await TempDir.create();
});
afterAll(() => folder?.[Symbol.asyncDispose]());

describe("the settings", () => {
  it("have a time limit of 30 seconds for calls, and the loopback address", () => {
    expect(readSettings({})).toMatchObject({ host: "127.0.0.1", port: 8790, limits: { ...LIMITS, callTimeoutMs: 30_000 } });
    expect(readSettings({ GATEWAY_ADDR: "[::1]:0", CALL_TIMEOUT_MS: "5" })).toMatchObject({
      host: "::1",
      port: 0,
      limits: { callTimeoutMs: 5 },
    });
  });

  it.each([
    [{ GATEWAY_ADDR: "8790" }, "GATEWAY_ADDR must be HOST:PORT, such as 127.0.0.1:8790, and is 8790"],
    [{ GATEWAY_ADDR: "127.0.0.1:70000" }, "GATEWAY_ADDR must be HOST:PORT, such as 127.0.0.1:8790, and is 127.0.0.1:70000"],
    [{ GATEWAY_ADDR: "0.0.0.0:0" }, "GATEWAY_ADDR 0.0.0.0:0 can be reached from other machines: set DEVICE_TOKENS_FILE, or use 127.0.0.1"],
    [{ CALL_TIMEOUT_MS: "30s" }, "CALL_TIMEOUT_MS must be a whole number from 1 to 16777216"],
    [{ MAX_DEVICES: "0" }, "MAX_DEVICES must be a whole number from 1 to 16777216"],
    [{ MAX_OUTPUT_BYTES: "16777217" }, "MAX_OUTPUT_BYTES must be a whole number from 1 to 16777216"],
    [{ ALLOWED_TOOLS: "camera(" }, "ALLOWED_TOOLS: patterns of tools must be like camera,device_*"],
    [{ DEVICE_TOKENS_FILE: "/none" }, "DEVICE_TOKENS_FILE cannot be read: ENOENT"],
  ])("%j are rejected", (env, message) => {
    expect(() => readSettings(env)).toThrow(message);
  });
});

describe("a file of tokens", () => {
  it.each([
    ["Pixel 0123456789abcdef", "line 1: the name must be like pixel-8, with at most 24 characters"],
    ["a__b 0123456789abcdef", "line 1: the name must be like pixel-8, with at most 24 characters"],
    ["# comment\npixel short", "line 2: the token needs at least 16 characters"],
    ["pixel 0123456789abcdef a b", "line 1: only NAME TOKEN PATTERNS are allowed"],
    ["a 0123456789abcdef\na 0123456789abcdeg", "line 2: the name occurs twice"],
    ["a 0123456789abcdef\nb 0123456789abcdef", "line 2: the token occurs twice"],
    ["a 0123456789abcdef ca?", "line 1: patterns of tools must be like camera,device_*"],
    ["", "has no devices"],
  ])("with %j is rejected, without its text in the message", async (text, message) => {
    await writeFile(folder.file("tokens"), text);
    const read = (): unknown => readSettings({ DEVICE_TOKENS_FILE: folder.file("tokens") });
    expect(read).toThrow(message);
    expect(read).not.toThrow(/0123456789/);
  });
});

describe("the program", () => {
  it.each([
    [{ PING_INTERVAL_MS: "x" }, [], /^PING_INTERVAL_MS must be a whole number/],
    [{ HOOKS: "./none.js" }, [], /^HOOKS: \.\/none\.js cannot be loaded: /],
    [
      { HOOKS: GATEWAY.replace(/main\.ts$/, "log.ts") },
      [],
      /^HOOKS: .* must export beforeToolCall or afterToolCall, and both must be functions$/,
    ],
    [{}, ["--port"], /^there are no arguments/],
  ])("with the wrong settings %j %j ends with code 2 and one line", async (env, args, message) => {
    await using program = new NodeProgram(GATEWAY, env, args);
    expect(await program.exited).toBe(2);
    expect(program.lines).toEqual([expect.stringMatching(message)]);
  });

  it("without its port ends with code 1, and names the port", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    await once(other, "listening");
    const { port } = other.address() as { port: number };
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: `127.0.0.1:${port}` });
    expect(await program.exited).toBe(1);
    expect(program.lines).toEqual([
      expect.stringMatching(new RegExp(`127\\.0\\.0\\.1:${port}: another program, or another gateway, has this port`)),
    ]);
    other.close();
  });

  it.each([
    ["throw null;", 2, /^HOOKS: .* cannot be loaded: null$/],
    ["export const beforeToolCall = 1; export function afterToolCall() {}", 2, /both must be functions$/],
    [
      'export function beforeToolCall() {} await new Promise((resolve) => setTimeout(() => { resolve(); throw new Error("late\\nsecret"); }));',
      1,
      /^uncaught exception: Error: late$/,
    ],
  ])("with the hook %j ends with code %i and one line", async (text, code, message) => {
    await writeFile(folder.file("hook.mjs"), text);
    await using program = new NodeProgram(GATEWAY, { HOOKS: folder.file("hook.mjs"), GATEWAY_ADDR: "127.0.0.1:0" });
    expect(await program.exited).toBe(code);
    expect(program.lines).toEqual([expect.stringMatching(message)]);
  });

  it("ends when its stdin ends, although devices are connected", async () => {
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: "127.0.0.1:0" });
    const url = (await program.line(/^gateway listening/)).replace(/^.* at /, "");
    using device = await RawDevice.with(url, "pixel", [tool("a")]);
    using silent = new RawDevice(url, "silent");
    await once(silent.socket, "open");
    silent.socket.pause();
    // The upgrade is complete only when the gateway is stopping.
    const late = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => undefined);
    late.write(
      "GET /?device=late HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    );
    await device.flushed();
    program.process.stdin?.end();
    await device.closed;
    const registration = Buffer.from('{"type":"register_tools","tools":[]}');
    const frame = Buffer.concat([Buffer.from([0x81, 0x80 + registration.length, 0, 0, 0, 0]), registration]);
    late.write("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    late.write(frame);
    expect(await program.exited).toBe(0);
    late.destroy();
    expect(await device.closed).toEqual({ code: 1001, reason: "the gateway is stopping" });
  });
});

describe("a host", () => {
  it("that a page of a stranger can have is rejected without tokens", async () => {
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: "127.0.0.1:0" });
    const url = (await program.line(/^gateway listening/)).replace(/^.* at /, "");
    for (const host of ["evil.example", "127.0.0.1.evil.example:8790", "gateway", "localhost.evil.example"])
      expect([host, await statusOf(url, { headers: { Host: host } })]).toEqual([host, 403]);
    for (const host of ["localhost:8790", "127.0.0.1", "[::1]:8790", "10.0.2.2:8790"]) {
      using device = await RawDevice.with(url, "pixel", [], { headers: { Host: host } });
      await device.flushed();
    }
  });

  it("may have any name if devices have tokens", async () => {
    await writeFile(folder.file("tokens"), "desk 0123456789abcdef");
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: "127.0.0.1:0", DEVICE_TOKENS_FILE: folder.file("tokens") });
    const url = (await program.line(/^gateway listening/)).replace(/^.* at /, "");
    const headers = { Host: "devices.example", Authorization: "Bearer 0123456789abcdef" };
    using device = await RawDevice.with(url, undefined, [], { headers });
    expect(await device.register([tool("a")])).toMatchObject({ registered: 1 });
  });
});

describe("the program of a device", () => {
  it("with a token registers under its name, and without it says that it is rejected", async () => {
    await writeFile(folder.file("tokens"), "desk 0123456789abcdef");
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: "127.0.0.1:0", DEVICE_TOKENS_FILE: folder.file("tokens") });
    const url = (await program.line(/^gateway listening/)).replace(/^.* at /, "");
    await using device = NodeProgram.device({ GATEWAY_URL: url, DEVICE_TOKEN: "0123456789abcdef" });
    await using stranger = NodeProgram.device({ GATEWAY_URL: url, DEVICE_NAME: "desk" });
    await Promise.all([device.line(/^registered 2 of 2 tools$/), stranger.line(/^rejected: HTTP 401: the token is missing or wrong$/)]);
    await program.line(/^desk: /, 2);
    expect(program.lines).toContain("desk: 2 of 2 tools registered");
  });

  it("with a forbidden name says that it is rejected, and with a wrong URL ends with code 2", async () => {
    await using program = new NodeProgram(GATEWAY, { GATEWAY_ADDR: "127.0.0.1:0" });
    const url = (await program.line(/^gateway listening/)).replace(/^.* at /, "");
    await using device = NodeProgram.device({ GATEWAY_URL: url, DEVICE_NAME: "a__b" });
    await using lost = NodeProgram.device({ GATEWAY_URL: "http://127.0.0.1" });
    await device.line(/^rejected: HTTP 400: \?device= must be a name like pixel-8$/);
    expect(await lost.exited).toBe(2);
    expect(lost.lines).toEqual(["GATEWAY_URL must be like ws://127.0.0.1:8790"]);
  });
});

describe("the registry of tools", () => {
  it("reports no change when a device reconnects with the same tools", () => {
    let changes = 0;
    const registry = new ToolRegistry(() => (changes += 1));
    const register = (session: string, description: string): void => {
      const spec = { name: "pixel__a", description, parameters: { type: "object" } } as const;
      const execute = (): Promise<ToolResult> => Promise.resolve({ success: true, output: session });
      registry.registerOrReplace({ spec, execute }, { kind: "remote", session });
    };
    register("older", "same");
    expect(changes).toBe(1);
    register("newer", "same");
    registry.unregisterBySource({ kind: "remote", session: "older" });
    expect(changes).toBe(1);
    expect(registry.toolNames({ kind: "remote", session: "newer" })).toEqual(["pixel__a"]);
    register("newer", "different");
    registry.unregisterBySource({ kind: "remote", session: "newer" });
    expect(changes).toBe(3);
    expect(registry.toolSpecs()).toEqual([]);
  });
});
