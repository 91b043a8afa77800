import { describe, expect, it } from "vitest";
import { describeClosedApps, describeHonestApps, describeHostileApp } from "../../../examples/cetp-bridge/test/scenarios.ts";
import { Bridge, MAIN } from "../../../examples/cetp-bridge/test/bridge.ts";
import { SdkClient } from "../../support/sdk-client.ts";
import { RealPhone } from "./real-phone.ts";

const injections: string[] = [];

/** Starts a phone that keeps, at its end, what its shell was made to do. */
async function startWatched(apps: readonly string[], isOld = false): Promise<RealPhone> {
  const phone = await RealPhone.start(apps, isOld);
  const dispose = phone[Symbol.asyncDispose].bind(phone);
  phone[Symbol.asyncDispose] = async (): Promise<void> => {
    injections.push(...phone.standIn.injections);
    await dispose();
  };
  return phone;
}

describe("the bridge and honest apps", () => {
  describeHonestApps((apps) => startWatched(apps));
});
describe("the bridge and a hostile app", () => {
  describeHostileApp((apps) => startWatched(apps));
});
describe("the bridge and closed apps", () => {
  describeClosedApps((apps) => startWatched(apps));
});
describe("the bridge and honest apps on an old device", () => {
  describeHonestApps((apps) => startWatched(apps, true));
});

it("the bridge serves a client with a session without the sidecar", async () => {
  await using phone = await startWatched(["weather"]);
  const env = { PATH: process.env["PATH"] ?? "", ...phone.env };
  await using client = await SdkClient.direct([process.execPath, MAIN, "--sessions"], env);
  await expect.poll(async () => (await client.listTools()).tools.map(({ name }) => name)).toContain("Weather_Co__get_forecast");
});

describe("several devices", () => {
  it("without ANDROID_SERIAL there are no tools, and the log says so", async () => {
    await using other = await RealPhone.start(["weather"]);
    let both: RealPhone | undefined;
    const startBoth = async (apps: readonly string[]): Promise<RealPhone> => {
      const phone = await startWatched(apps);
      await phone.adb("connect", `127.0.0.1:${other.port}`);
      await phone.adb("connect", `127.0.0.1:${phone.port}`);
      both = phone;
      return phone;
    };
    await using bridge = await Bridge.start(startBoth, ["weather"], { ANDROID_SERIAL: "" });
    await bridge.waitForLine("more than one device/emulator. Set ANDROID_SERIAL to one of `adb devices`");
    expect(await bridge.names()).toEqual([]);
    // adb would wait a minute for a device that is merely gone.
    await both?.adb("disconnect", `127.0.0.1:${other.port}`);
    await bridge.waitForTools((names) => names.length === 3);
  });
});

// The last of the file: all phones before it have ended.
it("no shell has executed more than the bridge's own commands", () => {
  expect(injections).toEqual([]);
});
