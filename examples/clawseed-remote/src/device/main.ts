// A device with two tools. GATEWAY_URL is ws://127.0.0.1:8790 by default. DEVICE_NAME names the device if the gateway needs no token, otherwise
// DEVICE_TOKEN does.

import { camera } from "./camera.ts";
import { DeviceClient } from "./device-client.ts";
import { deviceInfo } from "./device-info.ts";
import { log } from "../log.ts";

const url = URL.parse(process.env["GATEWAY_URL"] || "ws://127.0.0.1:8790");
const token = process.env["DEVICE_TOKEN"] || undefined;
if (url === null || !/^wss?:$/.test(url.protocol) || url.hash !== "") fail(2, "GATEWAY_URL must be like ws://127.0.0.1:8790");
if (token !== undefined && !/^[!-~]+$/.test(token)) fail(2, "DEVICE_TOKEN has characters that no header can have");
url.searchParams.set("device", process.env["DEVICE_NAME"] || "device");

const client = new DeviceClient({ url: url.href, token, tools: [deviceInfo, camera] });
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => client.stop());
await client.run().catch((error: Error) => fail(1, error.message));

function fail(code: number, text: string): never {
  log(text);
  process.exit(code);
}
