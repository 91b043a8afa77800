// A stand-in for an Android device with apps that have tools: `adb connect HOST:PORT` finds it.
// main.ts [--host HOST] [--port PORT] [--apps weather,notes,locked,hostile] [--old]
// --old: as before Android 11, `content` has no escapes.

import { parseArgs } from "node:util";
import { AdbDevice } from "./adb-protocol.ts";
import { APPS } from "./apps.ts";
import { StandIn } from "./device.ts";

try {
  const { values } = parseArgs({
    options: {
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string", default: "5555" },
      apps: { type: "string", default: "weather,notes" },
      old: { type: "boolean", default: false },
    },
  });
  const unknown = values.apps.split(",").find((name) => !Object.hasOwn(APPS, name));
  if (unknown !== undefined) throw new Error(`there is no app ${unknown}: --apps takes ${Object.keys(APPS).join(",")}`);
  const standIn = new StandIn(values.apps.split(","), values.old);
  const device = new AdbDevice((line) => standIn.run(line));
  const port = await device.listen(Number(values.port), values.host);
  process.stderr.write(`stand-in: a device with the apps ${values.apps} at ${values.host}:${port}\n`);
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void device.close().then(() => process.exit()));
} catch (error) {
  process.stderr.write(`stand-in: ${(error as Error).message}\n`);
  process.exitCode = 2;
}
