import { readFileSync } from "node:fs";
import { arch, release, type } from "node:os";
import { z } from "zod";
import type { DeviceTool } from "./device-client.ts";

/** Describes this machine. It has no `android_version`, so it names its own system. */
export const deviceInfo: DeviceTool = {
  name: "device_info",
  description: "Get device information: model, manufacturer, version of the operating system",
  parameters: z.object({}),
  execute: () =>
    JSON.stringify({
      model: firmwareText("product_name") ?? arch(),
      manufacturer: firmwareText("sys_vendor") ?? "unknown",
      os_version: `${type()} ${release()}`,
    }),
};

/** @returns undefined on machines other than Linux with DMI. */
function firmwareText(name: string): string | undefined {
  try {
    return readFileSync(`/sys/class/dmi/id/${name}`, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}
