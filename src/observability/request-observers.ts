import type { RequestObserver } from "./request-observer.ts";

/** Returns an observer that passes everything on to all of these; undefined without any. */
export function observeAll(observers: readonly RequestObserver[]): RequestObserver | undefined {
  const [only] = observers;
  if (observers.length <= 1) return only;
  return {
    ended: (...args) => {
      for (const observer of observers) observer.ended(...args);
    },
    rejected: (request) => {
      for (const observer of observers) observer.rejected(request);
    },
  };
}
