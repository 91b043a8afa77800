import type { DeviceState } from "../stand-in/apps.ts";

/** A device for the tests. */
export interface Phone extends AsyncDisposable {
  /** The environment of the bridge. */
  readonly env: Readonly<Record<string, string>>;
  /** Changes what is installed, and what its user has done. */
  change(change: (state: DeviceState) => void): Promise<void>;
  /** Returns the commands for adb's `shell` so far, as lines. */
  commands(): Promise<readonly string[]>;
  unplug(): Promise<void>;
  plugIn(): Promise<void>;
}

export type StartPhone = (apps: readonly string[]) => Promise<Phone>;
