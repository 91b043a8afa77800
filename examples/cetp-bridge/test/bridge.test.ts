import { describe } from "vitest";
import { RecordedPhone } from "./recorded-phone.ts";
import { describeClosedApps, describeHonestApps, describeHostileApp } from "./scenarios.ts";

// The same as test/system/adb/cetp-bridge.test.ts, with a recording of adb.
describe("the bridge and honest apps", () => {
  describeHonestApps((apps) => RecordedPhone.start(apps));
});
describe("the bridge and a hostile app", () => {
  describeHostileApp((apps) => RecordedPhone.start(apps));
});
describe("the bridge and closed apps", () => {
  describeClosedApps((apps) => RecordedPhone.start(apps));
});
