import { describe, expect, it } from "vitest";
import type { Run } from "../../../examples/cetp-bridge/test/recording.ts";
import { describeClosedApps, describeHonestApps, describeHostileApp } from "../../../examples/cetp-bridge/test/scenarios.ts";
import { Bridge } from "../../../examples/cetp-bridge/test/bridge.ts";
import { RealPhone, type RealPhoneOptions } from "./real-phone.ts";

// `npm --prefix examples/cetp-bridge run record` writes the recording that the tests of the example use.
const isRecorded = process.env["RECORD"] === "1";
let recording: Run[] = [];
const injections: string[] = [];

/** Starts a phone that keeps, at its end, what its shell was made to do, and the recording. */
async function startWatched(apps: readonly string[], options: RealPhoneOptions = {}): Promise<RealPhone> {
  const phone = await RealPhone.start(apps, options);
  const dispose = phone[Symbol.asyncDispose].bind(phone);
  phone[Symbol.asyncDispose] = async (): Promise<void> => {
    injections.push(...phone.standIn.injections);
    if (options.isRecorded === true) recording = await phone.saveRecording(recording);
    await dispose();
  };
  return phone;
}

describe("the bridge and honest apps", () => {
  describeHonestApps((apps) => startWatched(apps, { isRecorded }));
});
describe("the bridge and a hostile app", () => {
  describeHostileApp((apps) => startWatched(apps, { isRecorded }));
});
describe("the bridge and closed apps", () => {
  describeClosedApps((apps) => startWatched(apps, { isRecorded }));
});
describe("the bridge and honest apps on an old device", () => {
  describeHonestApps((apps) => startWatched(apps, { isOld: true }));
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
