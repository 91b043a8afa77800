import type { Config } from "./config/load.ts";
import { maskArgs, maskCommand } from "./config/mask.ts";
import { createUnreadOutput, type OutputOptions } from "./http/output/create-unread-output.ts";
import { SseConnections } from "./http/output/sse-connection.ts";
import { PageFiles } from "./http/page/page-files.ts";
import { createReadState } from "./http/page/page-state.ts";
import { PageStreams } from "./http/page/page-streams.ts";
import type { RecentActivity } from "./http/page/recent-activity.ts";
import type { NamedRoute } from "./http/route.ts";
import type { ServerStatus } from "./http/status-route.ts";
import type { Secrets } from "./observability/redact.ts";

export interface SidecarPageOptions extends OutputOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "adminAddr" | "isolation" | "keepAliveMs">;
  readonly secrets: Pick<Secrets, "replacer">;
  readonly version: string;
  readonly activity: RecentActivity;
  readonly status: () => ServerStatus;
}

/** The page of the sidecar. */
export interface SidecarPage {
  readonly routes: readonly NamedRoute[];
  readonly streams: PageStreams;
}

export function createPage({ config, secrets: { replacer }, version, activity, status, ...output }: SidecarPageOptions): SidecarPage {
  const { command, args, path, adminAddr, isolation, keepAliveMs } = config;
  const { memory, defects, nowMs } = output;
  const endpointPath = adminAddr === undefined ? path : null;
  const readState = createReadState({
    version,
    command: [maskCommand(command), ...maskArgs(args)],
    endpointPath,
    isIsolated: isolation === "session",
    isolatesQuestions: isolation === "auto",
    status,
    memory,
    nowMs,
  });
  const connections = new SseConnections(keepAliveMs, createUnreadOutput(output), defects);
  const files = new PageFiles(defects, endpointPath);
  const streams = new PageStreams({ activity, readState, connections, memory, replacer, defects });
  return {
    routes: [
      ["page", files.indexRoute],
      ["pageEvents", streams.route],
      ["pageFile", files.fileRoute],
    ],
    streams,
  };
}
