import { Defects } from "./observability/defects.ts";
import { describeError } from "./errors.ts";
import type { RequestMessage } from "./protocol/message.ts";
import { guardListener } from "./lane/guarded-listener.ts";
import type { LaneOptions } from "./lane/lane.ts";
import type { LaneEntry, PrivateLane } from "./lane/lanes.ts";
import { PrivateRouting } from "./lane/routing/private-routing.ts";
import type { SessionStreams } from "./sessions/session-streams.ts";
import type { Log } from "./observability/log.ts";
import { ClientHandshake } from "./upstream/handshake.ts";
import { Supervisor, type SupervisorOptions } from "./upstream/supervisor.ts";

export interface PrivateLaneOptions {
  /** Returns the options of a server that is initialized with this handshake. */
  readonly supervisorOptions: (handshake: SupervisorOptions["handshake"], log: Log) => SupervisorOptions;
  readonly laneOptions: Omit<LaneOptions, "upstream" | "createRouting" | "toolWatcher">;
  readonly createLane: (options: Omit<LaneOptions, "toolWatcher">) => LaneEntry;
  readonly initialize: RequestMessage;
  readonly streams: SessionStreams;
  readonly onSessionEnd: () => void;
}

/** Creates the lane of one client. Its server receives the client's own `initialize` at every start. */
export function createPrivateLane(options: PrivateLaneOptions): PrivateLane {
  const { laneOptions, streams, onSessionEnd } = options;
  const { log } = laneOptions;
  const handshake = new ClientHandshake(options.initialize);
  const supervisor = new Supervisor(options.supervisorOptions(handshake, log));
  const { lane, entry } = options.createLane({
    ...laneOptions,
    upstream: supervisor,
    createRouting: (access) =>
      new PrivateRouting(access, {
        streams,
        onSessionEnd,
        onInitialized: (text) => handshake.keepInitialized(text),
      }),
  });
  return {
    lane,
    entry,
    async run() {
      try {
        await supervisor.run(guardListener(lane, supervisor, new Defects(log, laneOptions.counters)));
      } catch (error) {
        log.error({ err: error, reason: describeError(error) }, "supervision failed");
      }
    },
    async stop() {
      // run() has logged the error.
      await supervisor.stop().catch(() => undefined);
    },
    kill: () => supervisor.kill(),
  };
}
