import type { RequestObserver } from "./request-observer.ts";

/** Returns an observer that passes everything on to all of these; undefined without any. */
export function observeAll(observers: readonly RequestObserver[]): RequestObserver | undefined {
  const [only] = observers;
  if (observers.length <= 1) return only;
  return {
    ended: (request, ending, body) => {
      for (const observer of observers) observer.ended(request, ending, body);
    },
    rejected: (request) => {
      for (const observer of observers) observer.rejected(request);
    },
  };
}
