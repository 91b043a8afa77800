import { describe, expect, it, onTestFinished, vi } from "vitest";
import { groupMembers } from "../../../test/support/sidecar.ts";
import { Adb, deadline } from "../src/adb.ts";
import { Catalog } from "../src/catalog.ts";
import { type App, Device } from "../src/device.ts";
import { Providers } from "../src/providers.ts";
import { FakeAdb } from "./fake-adb.ts";

const LIMIT_MS = 120_000;
/** Only a hang reaches it. */
const POLL = { timeout: 45_000 };
const PROVIDER = { packageName: "com.example.weather", authority: "com.example.weather.clawseed.tools" };
const APP: App = {
  packageName: PROVIDER.packageName,
  path: "/data/app/weather/base.apk",
  services: new Set(["com.example.weather.cetp.ToolProviderService"]),
};
const ESCAPES = { "*cetp-bridge.invalid*": "echo '[ERROR] Binding not well formed: x'" };
const TOOLS = `echo 'Result: Bundle[{status=success, data={"tools":[{"name":"get"}]}}]'`;
const PACKAGES = "echo com.example.weather/.cetp.ToolProviderService; echo package:/data/app/weather/base.apk=com.example.weather";

/** Calls a tool of the weather app. */
function call(providers: Providers, tool: string, signal = deadline(LIMIT_MS), args = "{}") {
  return providers.execute(PROVIDER, tool, { args, request_id: "1" }, signal);
}

async function startFake(answers: Readonly<Record<string, string>>) {
  const fake = await FakeAdb.create(answers);
  onTestFinished(() => fake[Symbol.asyncDispose]());
  const adb = new Adb(fake.path);
  onTestFinished(() => adb.kill());
  return { fake, adb, providers: new Providers(adb, true) };
}

/** Watches a device until the test has finished. */
function watch(adb: Adb, refreshMs: number): string[] {
  const events: string[] = [];
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const listener = { onApps: (apps: readonly App[]) => void events.push(`${apps.length} apps`), onLost: () => void events.push("lost") };
  void new Device(adb, { refreshMs, connectTo: "127.0.0.1:1" }, listener).watch(stop.signal);
  return events;
}

/** The lines that are logged until the test has finished. */
function spyOnLog(): string[] {
  const lines: string[] = [];
  const spy = vi.spyOn(process.stderr, "write").mockImplementation((line) => lines.push(String(line)) > 0);
  onTestFinished(() => spy.mockRestore());
  return lines;
}

describe("Adb", () => {
  it("a script and what it has started end at the limit", async () => {
    const { fake, adb } = await startFake({ hang: "trap '' TERM; echo $$ >$F/pid; sleep 60; true" });
    const limit = new AbortController();
    const run = adb.run(["hang"], limit.signal);
    await expect.poll(async () => groupMembers(Number(await fake.read("pid"))).length, POLL).toBe(2);
    limit.abort(new Error("the limit"));
    await expect(run).rejects.toThrow("the limit");
    await expect.poll(async () => groupMembers(Number(await fake.read("pid"))), POLL).toEqual([]);
  });
});

describe("Providers", () => {
  it("calls that wait for a tool end with their limit, and leave the queue when cancelled", async () => {
    const { fake, providers } = await startFake({
      ...ESCAPES,
      "*slow*": "exec sleep 60",
      "*quick*": "echo 'Result: Bundle[{status=success, data=1}]'",
    });
    const [running, waiting] = [new AbortController(), new AbortController()];
    const slow = [1, 2].map(() => call(providers, "slow", running.signal));
    await expect.poll(() => fake.count("slow"), POLL).toBe(2);
    expect(await call(providers, "slow", deadline(50))).toMatchObject({ code: "TIMEOUT", message: "There was no answer within 50 ms." });
    expect(await call(providers, "quick", deadline(LIMIT_MS), "x".repeat(65_000))).toMatchObject({ code: "INVALID_ARGS" });
    const cancelled = Array.from({ length: 64 }, () => call(providers, "slow", waiting.signal));
    expect(await call(providers, "slow")).toMatchObject({ code: "BUSY" });
    expect(await providers.ask(PROVIDER, "list_tools", deadline(LIMIT_MS))).toMatchObject({ message: "There was no answer." });
    waiting.abort();
    expect(new Set((await Promise.all(cancelled)).map((answer) => answer.status === "error" && answer.code))).toEqual(
      new Set(["CANCELLED"]),
    );
    expect(await call(providers, "quick")).toEqual({ status: "success", data: "1", value: 1 });
    running.abort();
    await Promise.all(slow);
    expect(await fake.count("slow")).toBe(2);
  });

  it("a failed probe of the escapes is not kept", async () => {
    const probe = "if test -e $F/probed; then echo '[ERROR] Binding not well formed: x'; else echo Killed; touch $F/probed; fi";
    const { fake, providers } = await startFake({
      "*cetp-bridge.invalid*": probe,
      "*quick*": "echo 'Result: Bundle[{status=success, data=1}]'",
    });
    expect(await call(providers, "quick")).toMatchObject({
      code: "INTERNAL_ERROR",
      message: "The command `content` of the device does not run.",
    });
    expect(await call(providers, "quick", deadline(LIMIT_MS), '{"a":1}')).toMatchObject({ status: "success" });
    expect(await fake.count(String.raw`args:s:{"a"\:1}`)).toBe(1);
  });

  it("an app is opened once a minute, and never for the text of an exception", async () => {
    const thrown = "echo 'java.lang.IllegalStateException: DeadObjectException, Could not find provider'";
    const absent = `echo 'java.lang.IllegalStateException: Could not find provider: ${PROVIDER.authority}'`;
    const { fake, providers } = await startFake({
      ...ESCAPES,
      "*thrown*": thrown,
      "*absent*": absent,
      "*resolve-activity*": "echo com.example.weather/.Main",
    });
    expect(await call(providers, "thrown")).toMatchObject({ code: "INTERNAL_ERROR" });
    expect(await fake.count("am start")).toBe(0);
    for (let each = 0; each < 2; each++) expect(await call(providers, "absent")).toMatchObject({ code: "PROVIDER_UNAVAILABLE" });
    expect(await fake.count("am start")).toBe(1);
  });
});

describe("Device", () => {
  it("a device that stays offline is not connected again without a pause", async () => {
    const { fake, adb } = await startFake({ "connect*": "echo connected to x", "shell*": "echo 'error: device offline' >&2; exit 1" });
    spyOnLog();
    watch(adb, 60_000);
    await expect.poll(() => fake.count("connect"), POLL).toBe(3);
    for (let each = 0; each < 20; each++) await adb.run(["pause"], deadline(LIMIT_MS));
    expect([await fake.count("shell"), await fake.count("connect")]).toEqual([1, 3]);
  });

  it("a list of packages that does not come keeps the tools", async () => {
    const { adb } = await startFake({ "shell*": `if test -e $F/seen; then exec yes; else touch $F/seen; ${PACKAGES}; fi` });
    const log = spyOnLog();
    const events = watch(adb, 10);
    await expect.poll(() => log.join(), POLL).toContain("the device is not available: The answer is longer than");
    expect(events).toEqual(["1 apps"]);
  });

  it("a million empty lines are read in linear time", async () => {
    // In quadratic time, they take minutes.
    const { adb } = await startFake({ "shell*": `${PACKAGES}; yes '' | head -n 1000000` });
    const events = watch(adb, 60_000);
    await expect.poll(() => events, POLL).toEqual(["1 apps"]);
  });
});

describe("Catalog", () => {
  async function startCatalog(list: string) {
    const parts = await startFake({ ...ESCAPES, "*unzip*": "cat $M", "*list_tools*": list });
    const log = spyOnLog();
    const catalog = new Catalog(parts.adb, parts.providers, LIMIT_MS, () => undefined);
    let laterMs = 0;
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, "now").mockImplementation(() => now() + laterMs);
    onTestFinished(() => clock.mockRestore());
    catalog.onApps([APP]);
    return { ...parts, log, catalog, pass: (ms: number) => void (laterMs += ms) };
  }
  const names = async (catalog: Catalog): Promise<string[]> => (await catalog.list()).map(({ name }) => name);

  it("an app that does not list its tools again keeps those that are known", async () => {
    const { log, catalog, pass, fake } = await startCatalog(`if test -e $F/fails; then echo Killed; else ${TOOLS}; fi`);
    expect(await names(catalog)).toEqual(["Weather_Co__get"]);
    await fake.write("fails", "");
    pass(11_000);
    catalog.reload(APP.packageName);
    await expect
      .poll(() => log.join(), POLL)
      .toContain("com.example.weather does not list its tools: INTERNAL_ERROR: There was no answer.");
    catalog.onApps([APP]);
    expect(await names(catalog)).toEqual(["Weather_Co__get"]);
  });

  it("an app is asked again after some seconds, or when its services change", async () => {
    const { catalog, pass, fake, adb } = await startCatalog(TOOLS);
    await names(catalog);
    catalog.reload(APP.packageName);
    catalog.onApps([APP]);
    for (let each = 0; each < 10; each++) await adb.run(["pause"], deadline(LIMIT_MS));
    expect(await fake.count("list_tools")).toBe(1);
    pass(11_000);
    catalog.reload(APP.packageName);
    await expect.poll(() => fake.count("list_tools"), POLL).toBe(2);
    catalog.onApps([{ ...APP, services: new Set([...APP.services, "com.example.weather.New"]) }]);
    await expect.poll(() => fake.count("list_tools"), POLL).toBe(3);
  });

  it("an authority that two packages seem to have is used for neither", async () => {
    const { catalog } = await startCatalog(TOOLS);
    expect(await names(catalog)).toHaveLength(1);
    catalog.onApps([APP, { ...APP, packageName: "com.example.other" }]);
    await expect.poll(() => names(catalog), POLL).toEqual([]);
  });
});
