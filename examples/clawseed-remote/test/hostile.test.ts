import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { type ClientOptions, WebSocket } from "ws";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { InteropClient } from "../../../test/support/sdk-clients.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { GatewayServer } from "./gateway-server.ts";
import { type Message, RawDevice, statusOf, tool } from "./raw-device.ts";

const TOKENS = `# name token tools
good     0123456789abcdef-good
evil     0123456789abcdef-evil
camera-1 0123456789abcdef-camera-1 camera,device_*
noisy    0123456789abcdef-noisy
fourth   0123456789abcdef-fourth
fifth    0123456789abcdef-fifth
answers  0123456789abcdef-answers
pongs    0123456789abcdef-pongs
short    0123456789abcdef-short
pings    0123456789abcdef-pings
silent   0123456789abcdef-silent
late     0123456789abcdef-late
`;
const MAX_OUTPUT_BYTES = 65_536;

let folder: TempDir;
let gateway: GatewayServer;
let client: InteropClient;
let good: RawDevice;

function withToken(name: string): ClientOptions {
  return { headers: { Authorization: `Bearer 0123456789abcdef-${name}` } };
}

beforeAll(async () => {
  folder = await TempDir.create();
  await writeFile(folder.file("tokens"), TOKENS);
  gateway = await GatewayServer.start({
    DEVICE_TOKENS_FILE: folder.file("tokens"),
    ALLOWED_TOOLS: "*a*,*e*,*o*",
    MAX_OUTPUT_BYTES: String(MAX_OUTPUT_BYTES),
    MAX_DEVICES: "3",
    MAX_TOOLS_PER_DEVICE: "20",
    MAX_CALLS_PER_DEVICE: "2",
    MAX_CALLS: "3",
  });
  client = await InteropClient.connect("v1", gateway.sidecar.url, { lane: "shared" });
  good = await RawDevice.with(gateway.url, undefined, [tool("echo")], withToken("good"));
  good.answerAll(({ args }) => (args as { text: string }).text);
});
afterAll(async () => {
  good?.[Symbol.dispose]();
  await client?.[Symbol.asyncDispose]();
  await gateway?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

/** Each attack leaves the gateway, its list and the other device as they were. */
async function expectNoHarm(): Promise<void> {
  expect(await client.toolText("good__echo", { text: "hello" })).toBe("hello");
  const names = (await client.listTools()).map(({ name }) => name);
  expect(names.filter((name) => !/^(?:evil|noisy|camera-1|fourth|answers|pongs|short|pings|late)__/.test(name))).toEqual([
    "good__echo",
    "list_devices",
  ]);
  expect(gateway.sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  expect(gateway.sidecar.transcript()).not.toContain("0123456789abcdef-");
}
afterEach(expectNoHarm);

/** Another gateway, with a short time limit: on a busy machine such a limit can also end what the devices of other tests do. */
const startImpatient = (limit: Readonly<Record<string, string>>): Promise<GatewayServer> =>
  GatewayServer.start({ DEVICE_TOKENS_FILE: folder.file("tokens"), ALLOWED_TOOLS: "*", ...limit });

const evil = (tools: readonly unknown[] = [tool("poke")]): Promise<RawDevice> =>
  RawDevice.with(gateway.url, undefined, tools, withToken("evil"));

describe("a connection", () => {
  it.each([
    ["without a token", 401, {}],
    ["with a wrong token", 401, withToken("wrong")],
    ["with a prefix of a token", 401, withToken("goo")],
    ["of a web page", 403, { ...withToken("good"), origin: "http://127.0.0.1" }],
  ])("%s is rejected before the upgrade", async (_, status, options) => {
    expect(await statusOf(gateway.url, options)).toBe(status);
  });

  it("that is rejected, or sends answers to no call, writes few lines to the log", async () => {
    using device = await evil();
    for (let count = 0; count < 200; count++) device.send({ type: "tool_result", id: `${count}`, output: "" });
    // More at a time would be closed before their requests are read.
    expect(await Promise.all(Array.from({ length: 40 }, () => statusOf(gateway.url)))).toEqual(Array(40).fill(401));
    const lines = await Promise.all([
      gateway.logged(/^evil: dropped: an answer to no call in flight \(the last of \d+\)$/),
      gateway.logged(/^connection rejected: 401 the token is missing or wrong \(the last of \d+\)$/),
    ]);
    for (const line of lines) {
      const kind = line.slice(0, 12);
      expect(gateway.sidecar.logLines.filter(({ msg }) => msg.startsWith(kind)).length).toBeLessThan(30);
    }
  });

  it("of a device above the limit is rejected", async () => {
    using second = await evil();
    using third = await RawDevice.with(gateway.url, undefined, [], withToken("fourth"));
    expect(await statusOf(gateway.url, withToken("fifth"))).toBe(503);
    // A device that is connected can always reconnect.
    using again = await RawDevice.with(gateway.url, undefined, [], withToken("fourth"));
    await third.closed;
    await Promise.all([second.flushed(), again.flushed()]);
  });

  it.each<[string, number, RegExp, (device: RawDevice) => void]>([
    ["JSON that is broken", 1008, /not JSON/, ({ socket }) => socket.send("{")],
    ["a message that is no object", 1008, /expected object/, (device) => device.send([])],
    ["a registration without tools", 1008, /^tools: /, (device) => device.send({ type: "register_tools" })],
    ["an answer without an id", 1008, /^id: /, (device) => device.send({ type: "tool_result", output: "" })],
    ["an answer whose output is no text", 1008, /^output: /, (device) => device.send({ type: "tool_result", id: "", output: {} })],
    [
      "a registration of over 64 KiB, before its parts are checked",
      1008,
      /no answer has at most 65536 bytes/,
      (device) => device.send({ type: "register_tools", tools: [tool("a", { type: "object", required: Array(33_000).fill(1) })] }),
    ],
    ["a binary frame", 1003, /must be text/, ({ socket }) => socket.send(Buffer.from("{}"))],
    ["a message that is too long", 1009, /^$/, (device) => device.send({ type: "x", x: "x".repeat(3 * MAX_OUTPUT_BYTES) })],
    ["text that is not UTF-8", 1007, /^$/, ({ socket }) => socket.send(Buffer.from([0xff]), { binary: false })],
  ])("is closed for %s, and its calls end at once", async (_, code, reason, attack) => {
    using device = await evil();
    const call = client.callTool("evil__poke");
    await device.next("tool_call_request");
    attack(device);
    const closed = await device.closed;
    expect(closed.code).toBe(code);
    expect(closed.reason).toMatch(reason);
    expect(await call).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^Channel closed: evil disconnected during the call/) as string }],
    });
  });

  it.each<[string, (device: RawDevice) => unknown]>([
    ["answers", (device) => device.answer("no call", "x".repeat(60_000))],
    ["pongs", ({ socket }) => socket.pong("x".repeat(100))],
    ["short", ({ socket }) => socket.send("{}")],
    // One at a time: the library itself ends a connection with 60 unwritten pongs.
    ["pings", (device) => device.flushed().catch(() => undefined)],
  ])("with a flood of %s that answer no call is closed, and the next one is rejected", async (name, send) => {
    using device = await RawDevice.with(gateway.url, undefined, [tool("poke")], withToken(name));
    const call = client.callTool(`${name}__poke`);
    await device.next("tool_call_request");
    for (let count = 0; count < 20_000 && device.socket.readyState === WebSocket.OPEN; count++) {
      await Promise.race([send(device), device.closed]);
      if (count % 10 === 0) await new Promise(setImmediate);
    }
    // The close frame may be lost: the gateway reads nothing more, and soon resets the connection.
    await gateway.logged(new RegExp(`^${name}: too many bytes that answer no call$`));
    await device.closed;
    expect(await call).toMatchObject({ isError: true });
    expect(await statusOf(gateway.url, withToken(name))).toBe(429);
  });

  it("that does not register may send little, also over several connections", async () => {
    let connections = 0;
    for (let status: number | undefined; status !== 429;) {
      using device = new RawDevice(gateway.url, undefined, withToken("silent"));
      const rejected = once(device.socket, "unexpected-response") as Promise<[unknown, { readonly statusCode?: number }]>;
      rejected.catch(() => undefined);
      await Promise.race([rejected, once(device.socket, "open")]);
      if (device.socket.readyState !== WebSocket.OPEN) {
        status = (await rejected)[1].statusCode;
        continue;
      }
      device.answer("no call", "x".repeat(MAX_OUTPUT_BYTES));
      device.answer("no call", "x".repeat(MAX_OUTPUT_BYTES));
      await device.closed;
      connections += 1;
    }
    expect(connections).toBeGreaterThan(3);
    expect(connections).toBeLessThan(20);
    await gateway.logged(/^silent: more than 131072 bytes before the registration$/);
  });

  it("with late answers to cancelled calls stays open, however long and many they are", async () => {
    using device = await RawDevice.with(gateway.url, undefined, [tool("poke")], withToken("late"));
    const ids: unknown[] = [];
    for (let count = 0; count < 130; count++) {
      const abort = new AbortController();
      const call = client.callTool("late__poke", {}, { signal: abort.signal });
      const { id } = await device.next("tool_call_request");
      abort.abort();
      await expect(call).rejects.toThrow(/abort/i);
      const inFlight = async (): Promise<unknown> =>
        (JSON.parse(await client.toolText("list_devices")) as Message[]).find((each) => each["device"] === "late")?.["calls_in_flight"];
      await expect.poll(inFlight, { interval: 5, timeout: 30_000 }).toBe(0);
      ids.push(id);
    }
    for (const id of ids) device.answer(id, "x".repeat(MAX_OUTPUT_BYTES));
    await device.flushed();
    device.answerAll(() => "in time");
    expect(await client.toolText("late__poke")).toBe("in time");
  });

  it("with a flood of registrations is closed, and the next one is rejected", async () => {
    using device = await RawDevice.with(gateway.url, undefined, [tool("poke")], withToken("noisy"));
    const call = client.callTool("noisy__poke");
    await device.next("tool_call_request");
    for (let count = 0; count < 100; count++) device.send({ type: "register_tools", tools: [tool(`poke${count}`)] });
    expect(await device.closed).toEqual({ code: 1008, reason: "too many registrations in a minute" });
    expect(await call).toMatchObject({ isError: true });
    expect(await statusOf(gateway.url, withToken("noisy"))).toBe(429);
  });

  it("of a device that never reads is closed", async () => {
    await using impatient = await startImpatient({ PING_INTERVAL_MS: "1000" });
    using device = await RawDevice.with(impatient.url, undefined, [tool("poke")], withToken("evil"));
    device.socket.pause();
    expect(await impatient.logged(/^evil: has /)).toBe("evil: has not answered a ping");
  });
});

describe("connections without a request", () => {
  it("do not take the places of devices", async () => {
    const { hostname, port } = new URL(gateway.url);
    const idle = Array.from({ length: 60 }, () => connect(Number(port), hostname).on("error", () => undefined));
    await Promise.all(idle.map((socket) => once(socket, "connect")));
    using device = await evil([]);
    expect(await device.register([tool("poke")])).toMatchObject({ registered: 1 });
    await gateway.logged(/^over 50 connections have not sent their requests: the oldest is closed$/);
    for (const socket of idle) socket.destroy();
  });
});

describe("a tool", () => {
  const deep = (levels: number): object => (levels === 0 ? {} : { type: "object", properties: { a: deep(levels - 1) } });
  const withA = (a: unknown): Message => tool("a", { type: "object", properties: { a } });
  const BAD: readonly (readonly [unknown, RegExp])[] = [
    [tool("a.b"), /name: /],
    [tool("a".repeat(60)), /over 58 characters/],
    [tool("xyz"), /not allowed/],
    [{ name: "a", description: "" }, /parameters: /],
    [tool("a", { type: "array" }), /parameters.type: /],
    [withA(true), /parameters.properties.a: /],
    [withA({ type: "strnig" }), /parameters.properties.a.type: /],
    [withA({ enum: ["a", "a"] }), /only different texts/],
    [withA({ enum: [1, {}] }), /only different texts/],
    [withA({ default: "\u00ad" }), /only a text/],
    [withA({ minLength: -1 }), /minLength: /],
    ...["$ref", "$id", "$schema", "$recursiveRef", "pattern", "x-mcp-header"].map(
      (keyword) => [withA({ [keyword]: "#" }), /Unrecognized key/] as const,
    ),
    ...["oneOf", "anyOf", "allOf", "enum", "$ref"].map(
      (keyword) => [tool("a", { type: "object", [keyword]: [{}] }), /parameters: Unrecognized key/] as const,
    ),
    ...[1, null].map(($schema) => [tool("a", { type: "object", $schema }), /\$schema: /] as const),
    ...["a b", "ö", "a".repeat(65)].map((key) => [tool("a", { type: "object", properties: { [key]: {} } }), /properties\./] as const),
    [tool("a", { type: "object", required: ["b", "b"] }), /only different names/],
    [tool("a", deep(20)), /over 8 levels/],
    [tool("a", JSON.parse('{"type":"object","__proto__":{"polluted":true}}')), /__proto__/],
    ...["\u001b[2J", "\u{E0041}\u202e", "\u{E0101}", "\u{E0080}", "\u034f", "\u3164", "\u2028", "\u200c\u200d\u200c", "\ufe0f\ufe0e"].map(
      (hidden) => [{ ...tool("a"), description: `ok${hidden}` }, /hidden characters/] as const,
    ),
    [withA({ description: "ok\u{E0041}" }), /hidden characters/],
    [{ ...tool("a"), description: "a".repeat(5000) }, /description: /],
    [null, /object/],
  ];

  it("that clients or providers would reject, or that misleads people, is rejected with a reason", async () => {
    using device = await evil([]);
    const rejected: unknown[] = [];
    // An answer has at most 20 reasons.
    for (let first = 0; first < BAD.length; first += 19) {
      const some = BAD.slice(first, first + 19);
      const answer = await device.register([...some.map(([bad]) => bad), tool("poke")]);
      expect(answer).toMatchObject({ count: some.length + 1, registered: 1 });
      rejected.push(...(answer["rejected"] as unknown[]));
    }
    expect(rejected).toEqual(
      BAD.map(([, reason]) => ({ name: expect.any(String) as string, reason: expect.stringMatching(reason) as string })),
    );
    // The list reaches strict clients.
    expect((await client.listTools()).map(({ name }) => name)).toEqual(["evil__poke", "good__echo", "list_devices"]);
  });

  it("that is plain, as the libraries of devices write it, is accepted", async () => {
    using device = await evil([]);
    const { $schema, ...parameters } = z.toJSONSchema(
      z.object({
        mode: z.enum(["a", "b"]).default("a").describe("❤️‍🔥 or 👩‍👩‍👧"),
        count: z.int().min(1).optional(),
        list: z.array(z.object({ id: z.union([z.string(), z.null()]) })).max(3),
      }),
    );
    expect($schema).toMatch(/^https:/);
    expect(await device.register([{ ...tool("poke"), parameters: { ...parameters, $schema } }])).toMatchObject({ registered: 1 });
    expect((await client.listTools()).find(({ name }) => name === "evil__poke")?.inputSchema).toEqual(parameters);
  });

  it("that is nested so deeply that programs overflow their stacks is rejected", async () => {
    using device = await evil([]);
    device.socket.send(
      `{"type":"register_tools","tools":[{"name":"a","description":"","parameters":{"type":"object","properties":{"a":${'{"items":'.repeat(6000)}1${"}".repeat(6000)}}}}]}`,
    );
    expect(await device.next("tools_registered")).toMatchObject({
      registered: 0,
      rejected: [{ reason: expect.stringMatching(/over 8 levels$/) as string }],
    });
  });

  it("above the limit, or with a name that occurs twice, is rejected", async () => {
    using device = await evil([]);
    const many = await device.register(Array.from({ length: 500 }, (_, index) => tool(`a${index}`)));
    expect(many).toMatchObject({ count: 500, registered: 20, rejected: [{ reason: "a device has at most 20 tools; 480 ignored" }] });
    expect(await device.register([tool("same"), tool("same")])).toMatchObject({
      registered: 1,
      rejected: [{ reason: "the name occurs twice" }],
    });
  });

  it("gets the prefix of its device, whatever name it imitates", async () => {
    using device = await evil([tool("list_devices"), tool("good__echo"), tool("__proto__")]);
    device.answerAll(() => "taken over");
    const names = (await client.listTools()).map(({ name }) => name);
    expect(names).toEqual(["evil____proto__", "evil__good__echo", "evil__list_devices", "good__echo", "list_devices"]);
    expect(JSON.parse(await client.toolText("list_devices"))).toHaveLength(2);
  });

  it("is rejected if the token of its device does not allow its name", async () => {
    using device = await RawDevice.with(gateway.url, undefined, [], withToken("camera-1"));
    const answer = await device.register([tool("camera"), tool("device_info"), tool("contacts")]);
    expect(answer).toMatchObject({ registered: 2, rejected: [{ name: "contacts", reason: "the name is not allowed for this device" }] });
  });
});

describe("a call", () => {
  it("without an answer ends at its time limit, and the late answer is dropped", async () => {
    await using impatient = await startImpatient({ CALL_TIMEOUT_MS: "1000" });
    await using caller = await InteropClient.connect("v1", impatient.sidecar.url, { lane: "shared" });
    using device = await RawDevice.with(impatient.url, undefined, [tool("poke")], withToken("evil"));
    const call = caller.callTool("evil__poke");
    const { id } = await device.next("tool_call_request");
    expect(await call).toMatchObject({ isError: true, content: [{ text: "Remote tool timeout (1s): evil has not answered" }] });
    device.answer(id, "late");
    await device.flushed();
    expect(device.unread("result_acknowledged")).toEqual([]);
    const devices = JSON.parse(await caller.toolText("list_devices")) as Message[];
    expect(devices.find((each) => each["device"] === "evil")).toMatchObject({ dropped_messages: 1, calls_in_flight: 0 });
  });

  it("above the limits of calls in flight is rejected at once", async () => {
    using device = await evil();
    using other = await RawDevice.with(gateway.url, undefined, [tool("device_info")], withToken("fourth"));
    const calls = [client.callTool("evil__poke"), client.callTool("evil__poke")];
    const requests = [await device.next("tool_call_request"), await device.next("tool_call_request")];
    expect(await client.callTool("evil__poke")).toMatchObject({ content: [{ text: "evil has 2 calls in flight; try again later" }] });
    calls.push(client.callTool("fourth__device_info"));
    requests.push(await other.next("tool_call_request"));
    expect(await client.callTool("list_devices")).toMatchObject({ content: [{ text: "3 calls are in flight; try again later" }] });
    for (const [index, { id }] of requests.entries()) (index < 2 ? device : other).answer(id, "done");
    expect((await Promise.all(calls)).map(({ content }) => content[0]?.text)).toEqual(["done", "done", "done"]);
  });

  it("with too large an output or arguments fails, and its device stays connected", async () => {
    const text = "x".repeat(MAX_OUTPUT_BYTES);
    expect(await client.callTool("good__echo", { text })).toMatchObject({
      isError: true,
      content: [{ text: "the arguments are too large" }],
    });
    using device = await evil();
    device.answerAll(() => `${text}x`);
    expect(await client.callTool("evil__poke")).toMatchObject({
      isError: true,
      content: [{ text: `the answer has ${MAX_OUTPUT_BYTES + 1} bytes, and at most ${MAX_OUTPUT_BYTES} are allowed` }],
    });
    await device.flushed();
  });
});
