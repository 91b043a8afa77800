import { imageSize } from "image-size";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ModernSdkClient } from "../../../test/support/modern-sdk-client.ts";
import { freePort } from "../../../test/support/open-sockets.ts";
import { InteropClient } from "../../../test/support/sdk-clients.ts";
import { GatewayServer, NodeProgram } from "./gateway-server.ts";
import { RawDevice, tool } from "./raw-device.ts";

/** Only a hang reaches it. */
const CHANGED = "notifications/tools/list_changed";

let gateway: GatewayServer;
/** A client with a session that declares elicitation, sampling and roots, and one of 2026-07-28. */
let legacy: InteropClient;
let modern: ModernSdkClient;

beforeAll(async () => {
  // A port that stays the same after a crash.
  gateway = await GatewayServer.start({ GATEWAY_ADDR: `127.0.0.1:${await freePort()}` });
  [legacy, modern] = await connectTo(gateway);
});
afterAll(async () => {
  await modern?.[Symbol.asyncDispose]();
  await legacy?.[Symbol.asyncDispose]();
  await gateway?.[Symbol.asyncDispose]();
});

async function connectTo({ sidecar }: GatewayServer): Promise<[InteropClient, ModernSdkClient]> {
  const withSession = await InteropClient.connect("v1", sidecar.url, { isPatient: true });
  const stateless = await ModernSdkClient.connect(sidecar.url, "pinned");
  await withSession.requests.streamStatus;
  await stateless.listen({ toolsListChanged: true });
  return [withSession, stateless];
}

/** Both see the same tools. Ends when the list is as expected, since several changes can be one notification. */
async function untilTools(expected: readonly string[]): Promise<void> {
  const names = async (): Promise<string[][]> =>
    [await legacy.listTools(), (await modern.listTools()).tools].map((tools) => tools.map(({ name }) => name));
  const sorted = expected.toSorted();
  await expect.poll(names).toEqual([sorted, sorted]);
}

/** Each test begins without devices. */
beforeEach(() => untilTools(["list_devices"]));

/** Both have a gateway of their own, so that no announcement is that of an earlier change. */
describe("both eras of clients", () => {
  it("hear of a device's tools, list them and call them", async () => {
    await using own = await GatewayServer.start();
    const clients = await connectTo(own);
    await using legacyClient = clients[0];
    await using modernClient = clients[1];
    using device = new RawDevice(own.url, "pixel");
    await new Promise((resolve) => device.socket.once("open", resolve));
    const parameters = { type: "object", properties: { quality: { type: "string", enum: ["low", "high"] } } };
    expect(await device.register([tool("device_info"), tool("camera", parameters)])).toEqual({
      type: "tools_registered",
      count: 2,
      registered: 2,
    });
    await Promise.all([legacyClient.waitToHear(CHANGED), modernClient.waitToHear(CHANGED)]);
    const listed = [await legacyClient.listTools(), (await modernClient.listTools()).tools];
    for (const tools of listed) {
      expect(tools.map(({ name }) => name)).toEqual(["list_devices", "pixel__camera", "pixel__device_info"]);
      expect(tools[1]).toMatchObject({ description: "The tool camera", inputSchema: parameters });
    }
    for (const client of clients) {
      const result = client.toolText("pixel__camera", { quality: "low" });
      const call = await device.next("tool_call_request");
      expect(call).toEqual({ type: "tool_call_request", id: call["id"], name: "camera", args: { quality: "low" } });
      expect(call["id"]).toMatch(/^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/);
      device.answer(call["id"], '{"a":1}');
      expect(await result).toBe('{"a":1}');
      expect(await device.next("result_acknowledged")).toEqual({ type: "result_acknowledged", id: call["id"] });
    }
    expect(own.sidecar.logLines.filter(({ msg }) => msg === "mcp server ready")).toHaveLength(1);
  });

  it("hear of a disconnection, which ends calls at once and removes the tools", async () => {
    await using own = await GatewayServer.start();
    const clients = await connectTo(own);
    await using legacyClient = clients[0];
    await using modernClient = clients[1];
    using device = await RawDevice.with(own.url, "pixel", [tool("slow")]);
    const untilHeard = () => Promise.all(clients.map((client) => client.waitToHear(CHANGED)));
    await untilHeard();
    for (const { heard } of clients) heard.length = 0;
    const calls = [legacyClient.callTool("pixel__slow"), modernClient.callTool({ name: "pixel__slow", arguments: {} })];
    await device.next("tool_call_request");
    await device.next("tool_call_request");
    device.socket.terminate();
    for (const result of await Promise.all(calls)) {
      expect(result).toMatchObject({
        isError: true,
        content: [{ text: "Channel closed: pixel disconnected during the call: disconnected" }],
      });
    }
    await untilHeard();
    expect((await legacyClient.listTools()).map(({ name }) => name)).toEqual(["list_devices"]);
    expect(await legacyClient.callTool("pixel__slow")).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/not available/) as string }],
    });
    await expect(legacyClient.callTool("slow")).rejects.toThrow(/Unknown tool/);
  });
});

describe("a device", () => {
  it("reconnecting replaces its older connection, whose calls end at once", async () => {
    using older = await RawDevice.with(gateway.url, "pixel", [tool("slow"), tool("old")]);
    const call = legacy.callTool("pixel__slow");
    await older.next("tool_call_request");
    using newer = await RawDevice.with(gateway.url, "pixel", [tool("slow"), tool("new")]);
    expect(await older.closed).toEqual({ code: 4001, reason: "replaced by a newer connection" });
    expect(await call).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/replaced by a newer connection/) as string }],
    });
    await untilTools(["list_devices", "pixel__new", "pixel__slow"]);
    newer.answerAll(() => "from the newer");
    expect(await modern.toolText("pixel__slow")).toBe("from the newer");
  });

  it("registering again on its older connection does not end a newer one", async () => {
    using older = await RawDevice.with(gateway.url, "pixel", [tool("old")]);
    using newer = new RawDevice(gateway.url, "pixel");
    await new Promise((resolve) => newer.socket.once("open", resolve));
    await older.register([tool("old")]);
    await newer.register([tool("new")]);
    expect(await older.closed).toEqual({ code: 4001, reason: "replaced by a newer connection" });
    await untilTools(["list_devices", "pixel__new"]);
  });

  it("registering again has only the tools of its last registration", async () => {
    using device = await RawDevice.with(gateway.url, undefined, [tool("a"), tool("b")]);
    await untilTools(["list_devices", "device__a", "device__b"]);
    await device.register([tool("b"), tool("c")]);
    await untilTools(["list_devices", "device__b", "device__c"]);
    expect(await legacy.toolText("list_devices")).toContain('["device__b","device__c"]');
  });

  it("reports errors, and an answer that contradicts itself is an error too", async () => {
    using device = await RawDevice.with(gateway.url, "pixel", [tool("fails")]);
    const outcome = async (answer: object): Promise<unknown> => {
      const result = legacy.callTool("pixel__fails");
      const { id } = await device.next("tool_call_request");
      device.send({ ...answer, id });
      await device.next("result_acknowledged");
      const { isError, content } = await result;
      return [isError, content[0]?.text];
    };
    const denied = "Camera permission denied";
    expect(await outcome({ type: "tool_error", error: denied, success: false })).toEqual([true, denied]);
    expect(await outcome({ type: "tool_error", error: denied, success: true })).toEqual([true, denied]);
    expect(await outcome({ type: "tool_result", output: denied, success: false })).toEqual([true, denied]);
  });

  it("sends images, and data that is not an image of its type is rejected", async () => {
    using device = await RawDevice.with(gateway.url, "pixel", [tool("camera")]);
    const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    const outputs: string[] = [];
    device.answerAll(() => outputs.shift() ?? "");
    const outcome = async (output: string): Promise<unknown> => {
      outputs.push(output);
      return (await legacy.callTool("pixel__camera")).content[0];
    };
    expect(await outcome(`data:image/png;base64,${png}`)).toEqual({ type: "image", mimeType: "image/png", data: png });
    expect(await outcome(`data:image/jpeg;base64,${png}`)).toMatchObject({
      text: "the device has sent a broken image: it is not image/jpeg",
    });
    expect(await outcome("data:image/png;base64,!!!")).toMatchObject({ text: expect.stringMatching(/not base64/) as string });
    const wide = Buffer.from(png, "base64");
    wide.writeUInt32BE(100_000, 16);
    expect(await outcome(`data:image/png;base64,${wide.toString("base64")}`)).toMatchObject({
      text: expect.stringMatching(/100000 x 1 pixels/) as string,
    });
    expect(await outcome("data:image/svg+xml;base64,AAAA")).toEqual({ type: "text", text: "data:image/svg+xml;base64,AAAA" });
  });

  it("gets no answer to a cancelled call acknowledged, and stays connected", async () => {
    using device = await RawDevice.with(gateway.url, "pixel", [tool("slow")]);
    const abort = new AbortController();
    const call = legacy.callTool("pixel__slow", {}, { signal: abort.signal });
    const { id } = await device.next("tool_call_request");
    abort.abort();
    await expect(call).rejects.toThrow(/abort/i);
    const devices = async (): Promise<unknown> => JSON.parse(await legacy.toolText("list_devices"));
    await expect.poll(devices).toMatchObject([{ calls_in_flight: 0 }]);
    device.answer(id, "late");
    await device.flushed();
    expect(device.unread("result_acknowledged")).toEqual([]);
    expect(await devices()).toEqual([{ device: "pixel", tools: ["pixel__slow"], calls_in_flight: 0, dropped_messages: 1 }]);
  });
});

describe("several devices", () => {
  it("ten with the same tool get their own calls, and answers are never mixed", async () => {
    const names = Array.from({ length: 10 }, (_, index) => `phone-${index}`);
    const devices = await Promise.all(names.map((name) => RawDevice.with(gateway.url, name, [tool("who")])));
    try {
      // Each device answers in the opposite order, so that only the ids say what belongs together.
      const answered = devices.map(async (device, index) => {
        const calls = [];
        for (let count = 0; count < 8; count++) calls.push(await device.next("tool_call_request"));
        for (const call of calls.toReversed()) device.answer(call["id"], `phone-${index} ${JSON.stringify(call["args"])}`);
      });
      await untilTools(["list_devices", ...names.map((name) => `${name}__who`)]);
      const calls = names.flatMap((name) =>
        Array.from({ length: 8 }, async (_, index) => {
          const result = await (index % 2 === 0 ? legacy : modern).toolText(`${name}__who`, { index });
          expect(result).toBe(`${name} {"index":${index}}`);
        }),
      );
      await Promise.all([...calls, ...answered]);
    } finally {
      for (const device of devices) device[Symbol.dispose]();
    }
  });

  it("an answer to the call of another device, or a second answer, is dropped", async () => {
    using device = await RawDevice.with(gateway.url, "pixel", [tool("slow")]);
    using thief = await RawDevice.with(gateway.url, "thief", [tool("other")]);
    const call = legacy.toolText("pixel__slow");
    const { id } = await device.next("tool_call_request");
    thief.answer(id, "stolen");
    thief.answer("550e8400-e29b-41d4-a716-446655440000", "invented");
    await thief.flushed();
    device.answer(id, "mine");
    device.answer(id, "twice");
    expect(await call).toBe("mine");
    await device.flushed();
    expect(thief.unread("result_acknowledged")).toEqual([]);
    expect(device.unread("result_acknowledged")).toHaveLength(1);
    const dropped = (JSON.parse(await legacy.toolText("list_devices")) as { device: string; dropped_messages: number }[]).map(
      (each) => `${each.device} ${each.dropped_messages}`,
    );
    expect(dropped.toSorted()).toEqual(["pixel 1", "thief 2"]);
  });
});

describe("the device client", () => {
  it("describes its machine and takes pictures in three sizes", async () => {
    await using device = NodeProgram.device({ GATEWAY_URL: gateway.url, DEVICE_NAME: "desk" });
    await device.line(/^registered 2 of 2 tools$/);
    expect(Object.keys(JSON.parse(await modern.toolText("desk__device_info")) as object)).toEqual(["model", "manufacturer", "os_version"]);
    const sizes = await Promise.all(
      ["low", "medium", "high"].map(async (quality) => {
        const [image] = (await modern.callTool({ name: "desk__camera", arguments: { quality } })).content;
        if (image?.type !== "image") throw new Error(JSON.stringify(image));
        expect(image.mimeType).toBe("image/png");
        return imageSize(Buffer.from(image.data, "base64"));
      }),
    );
    expect(sizes.map(({ type, width, height }) => `${type} ${width}x${height}`)).toEqual(["png 160x120", "png 320x240", "png 640x480"]);
    expect(await legacy.callTool("desk__camera", { quality: "best" })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/expected one of "low"\|"medium"\|"high"/) as string }],
    });
  });

  it("stops if another device takes its name, and does not take it back", async () => {
    await using device = NodeProgram.device({ GATEWAY_URL: gateway.url, DEVICE_NAME: "desk" });
    await device.line(/^registered/);
    using other = await RawDevice.with(gateway.url, "desk", []);
    await other.flushed();
    expect(await device.exited).toBe(1);
    expect(device.lines.at(-1)).toBe("another device with the same name has connected");
  });

  it("reconnects by itself after a crash of the gateway, and sessions of clients go on", async () => {
    await using device = NodeProgram.device({ GATEWAY_URL: gateway.url, DEVICE_NAME: "desk" });
    await untilTools(["list_devices", "desk__camera", "desk__device_info"]);
    const { sessionId } = legacy;
    process.kill(gateway.sidecar.childPid, "SIGKILL");
    await device.line(/^registered 2 of 2 tools$/, 2);
    await untilTools(["list_devices", "desk__camera", "desk__device_info"]);
    expect(await legacy.toolText("desk__device_info")).toMatch(/os_version/);
    expect(legacy.sessionId).toBe(sessionId);
  });
});
