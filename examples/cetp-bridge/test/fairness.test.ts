import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { Bridge } from "./bridge.ts";
import { FakeAdb } from "./fake-adb.ts";
import type { Phone } from "./phone.ts";

const HOSTILE_MANIFEST = fileURLToPath(new URL("../stand-in/apps/hostile.axml", import.meta.url));
const APPS = ["weather/.cetp.ToolProviderService", "hostile/.Own"];
const PACKAGES = APPS.map((app) => `echo com.example.${app}; echo package:/data/app/${app}.apk=com.example.${app.split("/")[0]}`).join(";");
const success = (data: string): string => `Result: Bundle[{status=success, data=${data}}]`;
const listOf = (...names: readonly string[]): string => `echo '${success(JSON.stringify({ tools: names.map((name) => ({ name })) }))}'`;

/** The bridge with the weather app and a hostile one. */
async function startBridge(answers: Readonly<Record<string, string>>): Promise<{ readonly bridge: Bridge; readonly fake: FakeAdb }> {
  const fake = await FakeAdb.create({
    "*query-services*": PACKAGES,
    "*unzip*hostile*": `cat '${HOSTILE_MANIFEST}'`,
    "*unzip*": "cat $M",
    ...answers,
  });
  const phone = { env: { ADB: fake.path }, [Symbol.asyncDispose]: () => fake[Symbol.asyncDispose]() };
  return { bridge: await Bridge.start(() => Promise.resolve(phone as unknown as Phone), []), fake };
}

it("an app that lists too much is refused before its list ends", async () => {
  const { bridge } = await startBridge({
    "*hostile*list_tools*": `printf '${success("[")}'; head -c 70000 /dev/zero | tr '\\0' '['; exec sleep 300`,
    "*list_tools*": listOf("get_forecast"),
  });
  await using _ = bridge;
  await bridge.waitForLine("com.example.hostile does not list its tools: ANSWER_TOO_LARGE: The answer is longer than 66560 bytes.");
  expect(await bridge.waitForTools((names) => names.length > 0)).toEqual(["Weather_Co__get_forecast"]);
});

it("data that do not end cost no more time than data that do", async () => {
  const { bridge, fake } = await startBridge({
    "*cetp-bridge.invalid*": "echo '[ERROR] Binding not well formed: x'",
    "*weather*list_tools*": listOf("whole", "unfinished"),
    "*tool_name:s:*": 'tool=${*##*tool_name:s:}; cat "$F/${tool%% *}"',
  });
  await using _ = bridge;
  await bridge.waitForTools((names) => names.length === 2);
  await fake.write("whole", success(`[${"{}, ".repeat(1_000_000)}{}]`));
  await fake.write("unfinished", success(`[${"{}, ".repeat(1_000_000)}{}`));
  const cpuOf = async (tool: string): Promise<number> => {
    const before = cpuTicks(bridge.sidecar.childPid);
    const { text, isError } = await bridge.call(`Weather_Co__${tool}`);
    expect([text.length > 4_000_000, isError]).toEqual([true, false]);
    return cpuTicks(bridge.sidecar.childPid) - before;
  };
  // The first calls compile the code. Sums of calls in turn, since a machine is busy at times.
  for (const tool of ["whole", "unfinished"]) await cpuOf(tool);
  const sums = { whole: 0, unfinished: 0 };
  for (let count = 0; count < 4; count++) {
    sums.whole += await cpuOf("whole");
    sums.unfinished += await cpuOf("unfinished");
  }
  expect(sums.unfinished).toBeLessThanOrEqual(2 * sums.whole);
});

it("no app answers for the device by guessing the authority that is asked for", async () => {
  const { bridge } = await startBridge({
    "*//cetp-bridge.invalid*": `echo '${success('"an app"')}'`,
    "*cetp-bridge.invalid*": "echo '[ERROR] Binding not well formed: x'",
    "*weather*list_tools*": listOf("get_forecast"),
    "*tool_name*": `echo '${success("1")}'`,
  });
  await using _ = bridge;
  await bridge.waitForTools((names) => names.length > 0);
  expect(await bridge.call("Weather_Co__get_forecast")).toMatchObject({ text: "1", isError: false });
});

it("a slow tool of an app leaves a place for its other tools", async () => {
  const { bridge, fake } = await startBridge({
    "*cetp-bridge.invalid*": "echo '[ERROR] Binding not well formed: x'",
    "*weather*list_tools*": listOf("slow", "quick"),
    "*tool_name:s:slow*": "until test -e $F/end; do sleep 0.1; done; echo 'Result: null'",
    "*tool_name:s:quick*": `echo '${success("1")}'`,
  });
  await using _ = bridge;
  await bridge.waitForTools((names) => names.length === 2);
  const slow = [1, 2, 3, 4, 5].map(() => bridge.call("Weather_Co__slow"));
  await expect.poll(() => fake.count("tool_name:s:slow"), { timeout: 30_000 }).toBe(2);
  // 50 ordinary calls wait for each other, not for the slow ones.
  const quick = await Promise.all(Array.from({ length: 50 }, () => bridge.call("Weather_Co__quick")));
  expect(new Set(quick.map(({ text }) => text))).toEqual(new Set(["1"]));
  expect(await fake.count("tool_name:s:slow")).toBe(2);
  await fake.write("end", "");
  for (const { text } of await Promise.all(slow)) expect(text).toMatch(/^TOOL_NOT_FOUND: /);
});

function cpuTicks(pid: number): number {
  const [, ...fields] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  const [user = 0, system = 0] = fields.join(") ").split(" ").slice(11, 13).map(Number);
  return user + system;
}
