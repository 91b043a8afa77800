/** How the process ends, besides 128 + n on a second signal of number n. */
export const ExitCode = {
  ok: 0,
  failed: 1,
  wrongConfiguration: 2,
  notExecutable: 126,
  notFound: 127,
} as const;
