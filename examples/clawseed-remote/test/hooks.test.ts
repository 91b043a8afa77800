import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { InteropClient } from "../../../test/support/sdk-clients.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { GatewayServer } from "./gateway-server.ts";
import { RawDevice, tool } from "./raw-device.ts";

/** Decides by the arguments of a call. */
const FIRST = `
export function beforeToolCall(call) {
  call.arguments.mutated = true; // A copy.
  if (call.arguments.throw) throw new Error("secret of the hook");
  if (call.arguments.reject) void Promise.reject(new Error("unawaited\\nsecret"));
  if (call.arguments.bigInt) return { modify: { ...call, arguments: { a: 1n } } };
  if (call.arguments.cycle) return { modify: { ...call, arguments: { call: (call.call = call) } } };
  if (call.arguments.hang) return new Promise(() => {});
  if (call.arguments.invalid) return { allow: true };
  if (call.arguments.rename) return { modify: { name: "pixel__other", arguments: { from: call.name } } };
  return call.arguments.change ? { modify: { ...call, id: "forged", arguments: { step: 1 } } } : "continue";
}
export function afterToolCall({ call, result, durationMs }) {
  if (call.arguments.auditFails) throw new Error("the audit is broken");
  if (call.arguments.auditThrows) throw Object.create(null);
  process.stderr.write("audit " + JSON.stringify([call.name, call.arguments, result.success, durationMs >= 0]) + "\\n");
}`;
const SECOND = `
export const beforeToolCall = async (call) => (call.arguments.step ? { modify: { ...call, arguments: { step: call.arguments.step + 1 } } } : "continue");`;

let folder: TempDir;
let gateway: GatewayServer;
let client: InteropClient;
let device: RawDevice;
/** The names of all calls that the device got. */
const called: unknown[] = [];

beforeAll(async () => {
  folder = await TempDir.create();
  const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
  const [, documented = ""] = /<!-- example: hooks\.js -->\s*```js\n([\s\S]*?)```/.exec(readme) ?? [];
  const modules = { "first.mjs": FIRST, "second.mjs": SECOND, "documented.mjs": documented };
  for (const [name, text] of Object.entries(modules)) await writeFile(folder.file(name), text);
  const hooks = Object.keys(modules).map((name) => folder.file(name));
  gateway = await GatewayServer.start({ HOOKS: hooks.join(","), HOOK_TIMEOUT_MS: "500" });
  client = await InteropClient.connect("v1", gateway.sidecar.url, { lane: "shared" });
  device = await RawDevice.with(gateway.url, "pixel", [tool("one"), tool("other"), tool("contacts")]);
  device.answerAll(({ name, args }) => {
    called.push(name);
    return JSON.stringify([name, args]);
  });
});
afterAll(async () => {
  device?.[Symbol.dispose]();
  await client?.[Symbol.asyncDispose]();
  await gateway?.[Symbol.asyncDispose]();
  await folder?.[Symbol.asyncDispose]();
});

describe("a hook", () => {
  it("lets a call continue unchanged, and sees it after its end", async () => {
    expect(await client.toolText("pixel__one", { a: 1 })).toBe('["one",{"a":1}]');
    expect(await gateway.logged(/^audit \["pixel__one",\{"a":1/)).toBe('audit ["pixel__one",{"a":1},true,true]');
  });

  it("cancels a call, as the README shows, and the device does not get it", async () => {
    const result = await client.callTool("pixel__contacts", { query: "Ann" });
    expect(result).toMatchObject({ isError: true, content: [{ text: "cancelled: contacts are private" }] });
    expect(await gateway.logged(/^audit \["pixel__contacts"/)).toBe('audit ["pixel__contacts",{"query":"Ann"},false,true]');
    await device.flushed();
    expect(called).not.toContain("contacts");
  });

  it("modifies arguments, then the next hook does, and the id stays", async () => {
    expect(await client.toolText("pixel__one", { change: true })).toBe('["one",{"step":2}]');
    let call = await device.next("tool_call_request");
    while (JSON.stringify(call["args"]) !== '{"step":2}') call = await device.next("tool_call_request");
    expect(call["id"]).toMatch(/^[\da-f-]{36}$/);
  });

  it("modifies the name, so that another tool is called", async () => {
    expect(await client.toolText("pixel__one", { rename: true })).toBe('["other",{"from":"pixel__one"}]');
  });

  it.each(["throw", "hang", "invalid", "bigInt", "cycle"])(
    "that fails (%s) cancels the call, and its error stays in the log",
    async (how) => {
      const result = await client.callTool("pixel__one", { [how]: true });
      expect(result).toMatchObject({ isError: true, content: [{ text: "cancelled: a hook has failed" }] });
      const logged: Readonly<Record<string, RegExp>> = {
        throw: /hook before: Error: secret/,
        hang: /no result within 500 ms/,
        invalid: /it must return "continue"/,
        bigInt: /hook before: TypeError: Do not know how to serialize a BigInt$/,
        cycle: /hook before: TypeError: Converting circular structure to JSON$/,
      };
      await gateway.logged(logged[how] ?? /^$/);
    },
  );

  it("that fails after a call does not change its result", async () => {
    expect(await client.toolText("pixel__one", { auditFails: true })).toBe('["one",{"auditFails":true}]');
    await gateway.logged(/hook after: Error: the audit is broken/);
    expect(await client.toolText("pixel__one", { auditThrows: true })).toBe('["one",{"auditThrows":true}]');
    await gateway.logged(/hook after: \[Object: null prototype\] \{\}$/);
  });

  it("whose rejection nothing awaits is a line of the log, and the gateway goes on", async () => {
    expect(await client.toolText("pixel__one", { reject: true })).toBe('["one",{"reject":true}]');
    await gateway.logged(/^unhandled rejection: Error: unawaited$/);
    expect(await client.toolText("pixel__one")).toBe('["one",{}]');
  });
});
