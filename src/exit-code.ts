/** How the process ends, besides 128 + n on a second signal of number n. */
export const ExitCode = {
  ok: 0,
  failed: 1,
  wrongConfiguration: 2,
  /** `discover --check`: the tools are not those of the descriptor. */
  drift: 3,
  notExecutable: 126,
  notFound: 127,
} as const;
