import { afterEach, beforeEach, vi } from "vitest";

/** Gives each test of a file a clock that begins at 0. Promises and immediates stay real if `only` names the rest. */
export function useFakeClock(only?: readonly ("setTimeout" | "clearTimeout" | "Date")[]): void {
  beforeEach(() => {
    vi.useFakeTimers({ now: 0, ...(only === undefined ? {} : { toFake: [...only] }) });
  });
  afterEach(() => {
    vi.useRealTimers();
  });
}

/** The functions that must be fake for servers whose end is awaited. */
export const TIMERS = ["setTimeout", "clearTimeout", "Date"] as const;
