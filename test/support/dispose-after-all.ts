import { afterAll } from "vitest";

/**
 * Registers a resource of all tests of the surrounding `describe`, or of the file. The resources are disposed of after the last test, the
 * newest first.
 */
export function disposeAfterAll<Resource extends AsyncDisposable>(resource: Resource): Resource {
  afterAll(() => resource[Symbol.asyncDispose]());
  return resource;
}
