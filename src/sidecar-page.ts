import type { Config } from "./config/load.ts";
import { maskArgs, maskCommand } from "./config/mask.ts";
import { createUnreadOutput, type OutputOptions } from "./http/output/create-unread-output.ts";
import { SseConnections } from "./http/output/sse-connection.ts";
import { Page } from "./http/page/page.ts";
import type { RecentActivity } from "./http/page/recent-activity.ts";
import type { ServerStatus } from "./http/status-route.ts";
import type { Secrets } from "./observability/redact.ts";

export interface SidecarPageOptions extends OutputOptions {
  readonly config: Pick<Config, "command" | "args" | "path" | "adminAddr" | "isolation" | "keepAliveMs">;
  readonly secrets: Pick<Secrets, "replacer">;
  readonly version: string;
  readonly activity: RecentActivity;
  readonly status: () => ServerStatus;
}

/** Creates the page of the sidecar. */
export function createPage({ config, secrets, version, activity, status, ...output }: SidecarPageOptions): Page {
  const { command, args, path, adminAddr, isolation, keepAliveMs } = config;
  return new Page({
    ...output,
    version,
    status,
    activity,
    command: [maskCommand(command), ...maskArgs(args)],
    endpointPath: adminAddr === undefined ? path : null,
    isIsolated: isolation === "session",
    isolatesQuestions: isolation === "auto",
    connections: new SseConnections(keepAliveMs, createUnreadOutput(output), output.defects),
    replacer: secrets.replacer,
  });
}
