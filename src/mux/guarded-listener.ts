import type { Defects } from "../defects.ts";
import type { Upstream, UpstreamListener } from "../upstream/port.ts";

export interface DefectListener extends UpstreamListener {
  /** The loss could not be handled: all requests that are open fail. */
  onDefect(): void;
}

/**
 * A listener that lets no defect through to the server's side. What it cannot handle makes its lane unreliable: the server is started
 * again, and the requests that it had are answered.
 */
export function guardListener(listener: DefectListener, upstream: Pick<Upstream, "restart">, defects: Defects): UpstreamListener {
  const restart = (): void => upstream.restart("defect", "the sidecar could not handle what it said");
  return {
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
