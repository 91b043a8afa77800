import type { Defects } from "../observability/defects.ts";
import type { Upstream, UpstreamListener } from "../upstream/port.ts";

export interface DefectListener extends UpstreamListener {
  /** Called when `onLost` has thrown. Fails all requests in flight. */
  onDefect(): void;
}

/**
 * Returns a listener that never throws. After an error in a handler the state of the lane is unreliable. The server is then restarted,
 * which fails its requests in flight.
 */
export function guardListener(listener: DefectListener, upstream: Pick<Upstream, "restart">, defects: Defects): UpstreamListener {
  const restart = (): void => upstream.restart("defect", "the sidecar could not handle its output");
  return {
    onStarted: (input) => listener.onStarted(input),
    onReady: (handshake) => defects.guard("server ready", () => listener.onReady(handshake), restart),
    onMessage: (message) => {
      try {
        listener.onMessage(message);
      } catch (error) {
        defects.recover("server message", error, restart);
      }
    },
    onRefused: (response) => defects.guard("server refusal", () => listener.onRefused(response), restart),
    onOverlongLine: (line) => defects.guard("overlong line", () => listener.onOverlongLine(line), restart),
    onLost: (exit, unwritten) =>
      defects.guard(
        "server exit",
        () => listener.onLost(exit, unwritten),
        () => listener.onDefect(),
      ),
  };
}
