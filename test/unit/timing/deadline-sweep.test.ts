import { describe, expect, it, vi } from "vitest";
import { DeadlineSweep } from "../../../src/timing/deadline-sweep.ts";
import { UNGUARDED } from "../../support/defects.ts";
import { useFakeClock } from "../../support/fake-clock.ts";

useFakeClock();

/** Sweeps a list of deadlines, and records the time of each sweep and the deadlines that were due. */
class Deadlines {
  readonly sweptAtMs: number[] = [];
  readonly metAtMs = new Map<number, number>();
  readonly sweep = new DeadlineSweep(Date.now, UNGUARDED, (nowMs) => this.#sweep(nowMs));
  readonly #open = new Set<number>();

  add(...deadlines: readonly number[]): void {
    for (const deadlineMs of deadlines) {
      this.#open.add(deadlineMs);
      this.sweep.watch(deadlineMs);
    }
  }

  /** Meets a deadline in time, of which the sweep is not notified. */
  settle(deadlineMs: number): void {
    this.#open.delete(deadlineMs);
  }

  #sweep(nowMs: number): number {
    this.sweptAtMs.push(nowMs);
    for (const deadlineMs of this.#open) {
      if (deadlineMs > nowMs) continue;
      this.#open.delete(deadlineMs);
      this.metAtMs.set(deadlineMs, nowMs);
    }
    return Math.min(...this.#open);
  }
}

describe("DeadlineSweep", () => {
  it("one timer meets all deadlines, in whatever order they were added", () => {
    const deadlines = new Deadlines();
    deadlines.add(300, 100, 200, 100);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1000);
    expect(deadlines.sweptAtMs).toEqual([100, 200, 300]);
    expect([...deadlines.metAtMs]).toEqual([
      [100, 100],
      [200, 200],
      [300, 300],
    ]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("a fractional deadline is never swept early", () => {
    const deadlines = new Deadlines();
    deadlines.add(100.4);
    vi.advanceTimersByTime(100);
    expect(deadlines.sweptAtMs).toEqual([]);
    vi.advanceTimersByTime(1);
    expect([...deadlines.metAtMs]).toEqual([[100.4, 101]]);
  });

  it("a deadline that was settled costs one idle sweep and hides no other", () => {
    const deadlines = new Deadlines();
    deadlines.add(100, 200);
    deadlines.settle(100);
    vi.advanceTimersByTime(1000);
    expect(deadlines.sweptAtMs).toEqual([100, 200]);
    expect([...deadlines.metAtMs]).toEqual([[200, 200]]);
  });

  it("a sweep starts again after all deadlines have passed", () => {
    const deadlines = new Deadlines();
    deadlines.add(100);
    vi.advanceTimersByTime(500);
    deadlines.add(700);
    vi.advanceTimersByTime(500);
    expect(deadlines.sweptAtMs).toEqual([100, 700]);
  });

  it("a deadline in the past is swept at once", () => {
    const deadlines = new Deadlines();
    vi.advanceTimersByTime(500);
    deadlines.add(100);
    vi.advanceTimersByTime(1);
    expect([...deadlines.metAtMs.keys()]).toEqual([100]);
  });

  it("a deadline beyond the longest timer takes only a few sweeps", () => {
    // Both the fake and the real timer treat this time as no time at all.
    const farMs = 3 * 2 ** 31;
    const deadlines = new Deadlines();
    deadlines.add(farMs);
    vi.advanceTimersByTime(1000);
    expect(deadlines.sweptAtMs).toEqual([]);
    vi.advanceTimersByTime(farMs);
    expect([...deadlines.metAtMs]).toEqual([[farMs, farMs]]);
    expect(deadlines.sweptAtMs.length).toBeLessThan(6);
  });

  it("a deadline that is added during a sweep is met", () => {
    const told: number[] = [];
    const sweep: DeadlineSweep = new DeadlineSweep(Date.now, UNGUARDED, (nowMs) => {
      told.push(nowMs);
      if (nowMs === 100) sweep.watch(150);
      return nowMs < 200 ? 200 : Number.POSITIVE_INFINITY;
    });
    sweep.watch(100);
    vi.advanceTimersByTime(1000);
    expect(told).toEqual([100, 150, 200]);
  });

  it("a closed sweep never runs again", () => {
    const deadlines = new Deadlines();
    deadlines.add(100);
    deadlines.sweep.close();
    deadlines.add(50, 200);
    expect(vi.getTimerCount()).toBe(0);
    vi.advanceTimersByTime(1000);
    expect(deadlines.sweptAtMs).toEqual([]);
  });

  it("a sweep that is closed while it runs stays closed", () => {
    const told: number[] = [];
    const sweep: DeadlineSweep = new DeadlineSweep(Date.now, UNGUARDED, (nowMs) => {
      told.push(nowMs);
      sweep.close();
      return nowMs + 100;
    });
    sweep.watch(100);
    vi.advanceTimersByTime(1000);
    expect(told).toEqual([100]);
  });

  it("a sweep does not keep the process alive", () => {
    vi.useRealTimers();
    const before = process.getActiveResourcesInfo();
    const sweep = new DeadlineSweep(Date.now, UNGUARDED, () => Number.POSITIVE_INFINITY);
    sweep.watch(Date.now() + 60_000);
    const after = process.getActiveResourcesInfo();
    sweep.close();
    expect(after).toEqual(before);
  });
});
