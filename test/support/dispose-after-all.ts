import { afterAll } from "vitest";

/** A resource of all tests of the surrounding `describe`, or of the file. It is disposed behind the last of them; the newest one first. */
export function disposeAfterAll<Resource extends AsyncDisposable>(resource: Resource): Resource {
  afterAll(() => resource[Symbol.asyncDispose]());
  return resource;
}
