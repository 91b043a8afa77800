import { afterAll } from "vitest";

/** Of the test file that runs. */
const failures: unknown[] = [];

/**
 * Registers a resource of all tests of the surrounding `describe`, or of the file. The resources are disposed of after the last test, the
 * newest first.
 */
export function disposeAfterAll<Resource extends AsyncDisposable>(resource: Resource): Resource {
  // If this failed, no other resource would be disposed of.
  afterAll(async () => {
    try {
      await resource[Symbol.asyncDispose]();
    } catch (error) {
      failures.push(error);
    }
  });
  return resource;
}

/** Fails the test file if a resource could not be disposed of. To be called after all others. */
export function reportFailedDisposals(): void {
  const errors = failures.splice(0);
  if (errors.length > 0) throw new AggregateError(errors, `resources were not disposed of: ${errors.map(String).join("; ")}`);
}
