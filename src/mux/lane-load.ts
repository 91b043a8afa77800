/** How much a lane has to do. */
export interface LaneLoad {
  /** Requests of clients that were taken and are not answered yet. */
  readonly requestsInFlight: number;
  /** What is held until the server can take it: of these requests, and initialize and notifications. */
  readonly waiting: number;
  /** The text of all that waits for its turn or to be read by the server. */
  readonly queuedBytes: number;
}

export function addLoads(loads: Iterable<LaneLoad>): LaneLoad {
  let [requestsInFlight, waiting, queuedBytes] = [0, 0, 0];
  for (const load of loads) {
    requestsInFlight += load.requestsInFlight;
    waiting += load.waiting;
    queuedBytes += load.queuedBytes;
  }
  return { requestsInFlight, waiting, queuedBytes };
}
