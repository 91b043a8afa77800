import { addAbortListener } from "node:events";
import { readCommandLine } from "../config/command-line.ts";
import { loadConfig } from "../config/load.ts";
import { maskCommand } from "../config/secret-file.ts";
import { createContext } from "../context.ts";
import { NEWEST_LEGACY_PROTOCOL_VERSION } from "../mcp/message.ts";
import { logOf } from "../observe/log.ts";
import type { Secrets } from "../observe/redact.ts";
import type { ChildCommand } from "../process/child.ts";
import { ServerProgram } from "../process/generation.ts";
import type { UpstreamHandshake } from "../process/port.ts";
import { McpServer } from "../server.ts";
import { MAX_LIST_BYTES } from "../server/tools.ts";
import { DiscoverError, hasTools, type Listing, type ListingBounds, listingOf, TOOL_LIST_RULES } from "./listing.ts";
import { OWN_EXITS } from "./start-failure.ts";

/**
 * Starts the server as a sidecar with the default of each option does, and lists its tools. Always terminates its process group.
 *
 * @param kill kills all processes at once.
 * @param onStderr called with each line of the server's stderr, with secrets masked.
 * @throws DiscoverError with the tail of the server's stderr.
 */
export async function listFromProcess(
  bounds: ListingBounds,
  command: ChildCommand,
  secrets: Secrets,
  kill: AbortSignal,
  onStderr: (line: string) => void,
): Promise<Listing> {
  const { clientInfo, signal, timeoutMs } = bounds;
  const { config: defaults } = loadConfig(readCommandLine(["--", "server"]), {});
  if (defaults === undefined) throw new Error("the defaults are not valid");
  // MAX_LIST_BYTES limits the memory.
  const limits = { maxLineBytes: MAX_LIST_BYTES, memoryBudgetBytes: Number.POSITIVE_INFINITY, readyTimeoutMs: timeoutMs };
  const log = logOf((_level, fields, line) => fields["stream"] === "stderr" && onStderr(line));
  const context = createContext({ ...defaults, ...limits, keepTrying: false }, log, secrets, new AbortController().signal, kill);
  const endMs = context.nowMs() + timeoutMs;
  const program = new ServerProgram(context, command);
  const server = await McpServer.start(context, { program, clientInfo, policy: undefined, observeLane: undefined });
  const aborted = Promise.withResolvers<never>();
  addAbortListener(signal, () => aborted.reject(signal.reason as Error));
  /** Returns the error of a server that has exited; undefined if it runs. */
  const exitError = (awaited: "initialize" | "tools/list"): DiscoverError | undefined => {
    const { lastExit } = server.status().upstream;
    if (lastExit === undefined) return undefined;
    const { kind, reason, likelyCause } = lastExit;
    const subject = OWN_EXITS.has(kind) ? `${maskCommand(command.command)} ` : "";
    // The reasons of other exits in the handshake say it.
    const when = awaited === "tools/list" || kind === "pipe-closed" ? ` before it answered ${awaited}` : "";
    return new DiscoverError(`${subject}${reason}${when}${likelyCause === undefined ? "" : `; likely cause: ${likelyCause}`}`);
  };
  const list = async (): Promise<Listing> => {
    const ready = await Promise.race([server.firstReady, server.failed]);
    if (ready === undefined || "kind" in ready) throw exitError("initialize") ?? new Error("the server was stopped");
    if (!hasTools(ready)) return listingOf(revisionOf(ready), undefined);
    const tools = await server.listTools(endMs - context.nowMs(), TOOL_LIST_RULES);
    if (tools.code === "REQUEST_TIMEOUT") throw new DiscoverError(`no response to tools/list within ${timeoutMs} ms of the start`);
    const exit = exitError("tools/list");
    if (tools.tools === undefined && exit !== undefined) throw exit;
    if (tools.code !== undefined) throw new DiscoverError(tools.problem ?? "");
    return listingOf(revisionOf(ready), tools);
  };
  const listed = Promise.race([list(), aborted.promise]);
  await Promise.allSettled([listed]);
  await server.stop();
  return listed.catch((error: unknown) => {
    if (!(error instanceof DiscoverError)) throw error;
    const { noiseLines } = context.counters.dropped;
    const noise = noiseLines === 0 ? "" : ` (lines on its stdout that are not JSON-RPC: ${noiseLines})`;
    throw new DiscoverError(`${error.message}${noise}`, server.status().upstream.lastExit?.stderrTail);
  });
}

/** A sidecar serves every revision with sessions, whichever its server has chosen. */
function revisionOf({ era, protocolVersion }: UpstreamHandshake): string {
  return era === "modern" ? protocolVersion : NEWEST_LEGACY_PROTOCOL_VERSION;
}
