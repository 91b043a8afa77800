/** The settings, with their defaults. */
export interface Settings {
  /** The program to run as `adb`. */
  readonly adb: string;
  /** The address of a device that is reached over TCP. adb itself reads the serial from the environment. */
  readonly connectTo: string | undefined;
  /** The time between two looks at the packages of the device. */
  readonly refreshMs: number;
  readonly callTimeoutMs: number;
  /** The time for the user to authorize in the app that was opened. */
  readonly authWaitMs: number;
  /** True to open an app if its provider does not start otherwise (CETP §3.3). */
  readonly canStartApps: boolean;
}

/** @throws {Error} with one line for the user if a value is invalid. */
export function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const numberOf = (name: string, fallback: number, min: number): number => {
    const text = env[name] || String(fallback);
    const value = /^\d{1,7}$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= min)) throw new Error(`${name} must be a number of milliseconds from ${min} to 9999999`);
    return value;
  };
  const serial = env["ANDROID_SERIAL"] ?? "";
  if (!/^[\w.:[\]%()-]*$/.test(serial)) throw new Error("ANDROID_SERIAL is not a serial of adb devices, and not HOST:PORT");
  const startApps = env["START_APPS"] || "on";
  if (startApps !== "on" && startApps !== "off") throw new Error("START_APPS must be on or off");
  return {
    adb: env["ADB"] || "adb",
    connectTo: /^.+:\d+$/.test(serial) ? serial : undefined,
    refreshMs: numberOf("REFRESH_MS", 5000, 100),
    callTimeoutMs: numberOf("CALL_TIMEOUT_MS", 30_000, 100),
    authWaitMs: numberOf("AUTH_WAIT_MS", 30_000, 0),
    canStartApps: startApps === "on",
  };
}
