/** The load of a lane. */
export interface LaneLoad {
  /** Client requests that were accepted and have not ended, queued ones included. */
  readonly requestsInFlight: number;
  /** Entries of the queue: some of these requests, `initialize` requests and notifications. */
  readonly waiting: number;
  /** The bytes of all lines that are queued, being checked, or not yet read by the server. */
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
