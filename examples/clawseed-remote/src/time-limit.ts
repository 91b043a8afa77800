/** @throws Error if the work takes longer, which it is not told. */
export async function withTimeLimit<Result>(limitMs: number, work: () => Result | Promise<Result>): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`no result within ${limitMs} ms`)), limitMs);
  try {
    return await Promise.race([work(), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
