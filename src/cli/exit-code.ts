/** The exit codes of the process. A second signal of number n exits with 128 + n. */
export const ExitCode = {
  ok: 0,
  failed: 1,
  wrongConfiguration: 2,
  /** `discover --check`: the tools differ from the descriptor. */
  drift: 3,
  notExecutable: 126,
  notFound: 127,
} as const;
