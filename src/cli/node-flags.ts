/** The flags and the memory that a Node process has at its start. */
export interface NodeStart {
  /** The flags of its command line. */
  readonly execArgv: readonly string[];
  readonly nodeOptions: string | undefined;
  /** The memory limit of its container. Without one, Node returns 0 or a number beyond any machine's memory. */
  readonly constrainedBytes: number;
  readonly machineBytes: number;
}

const MEBIBYTE = 2 ** 20;
/** V8 lets the young generation grow larger, which costs memory and longer pauses, and makes no more calls per second. */
const SEMI_SPACE_MIB = 8;
/** In a small container, 8 MiB are too many: garbage is collected, and buffers are freed, only when a semi-space is full. */
const SEMI_SPACES_IN_CONTAINER = 64;
/** V8's own limit exceeds that of a small container, so the kernel would end the sidecar before V8 collects its garbage. */
const OLD_SPACES_IN_CONTAINER = 2;

/**
 * Returns the memory flags that Node was not started with. V8 reads them before any code runs, so setting them later has no effect. Sizes
 * that the operator has chosen are kept.
 */
export function missingNodeFlags({ execArgv, nodeOptions = "", constrainedBytes, machineBytes }: NodeStart): string[] {
  // V8 accepts underscores as well.
  const chosen = [...execArgv, nodeOptions].join(" ").replaceAll("_", "-");
  const isConstrained = constrainedBytes > 0 && constrainedBytes < machineBytes;
  const containerMib = isConstrained ? constrainedBytes / MEBIBYTE : Number.POSITIVE_INFINITY;
  const flags: string[] = [];
  if (!chosen.includes("--max-semi-space-size")) {
    flags.push(`--max-semi-space-size=${wholeMib(Math.min(SEMI_SPACE_MIB, containerMib / SEMI_SPACES_IN_CONTAINER))}`);
  }
  // `--max-old-space-size-percentage` counts as chosen. Node 22 does not know it, and without a container it raises V8's own limit.
  if (isConstrained && !chosen.includes("--max-old-space-size")) {
    flags.push(`--max-old-space-size=${wholeMib(containerMib / OLD_SPACES_IN_CONTAINER)}`);
  }
  return flags;
}

/** V8 takes 0 for its own default. */
function wholeMib(mib: number): number {
  return Math.max(1, Math.floor(mib));
}
