/** A request that the sidecar itself makes of a server. */
export interface OwnRequest {
  readonly method: string;
  readonly params: object;
  /** Asked right before it is sent: what it says may not be true any more. */
  readonly isCurrent?: () => boolean;
  readonly onSettled?: (hasResult: boolean) => void;
}

/** A client may end a thousand subscriptions at once; the requests of the others shall not wait behind them. */
const MAX_IN_FLIGHT = 16;

/** The sidecar's own requests, a few at a time, in order. */
export class OwnRequests {
  readonly #send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void;
  #queue: OwnRequest[] = [];
  #inFlight = 0;

  constructor(send: (method: string, params: object, onSettled: (hasResult: boolean) => void) => void) {
    this.#send = send;
  }

  add(request: OwnRequest): void {
    this.#queue.push(request);
    this.#sendNext();
  }

  /** The server is gone: the next one is told what is true by then. */
  clear(): void {
    this.#queue = [];
  }

  #sendNext(): void {
    while (this.#inFlight < MAX_IN_FLIGHT) {
      const request = this.#queue.shift();
      if (request === undefined) return;
      if (request.isCurrent?.() === false) continue;
      this.#inFlight++;
      this.#send(request.method, request.params, (hasResult) => {
        this.#inFlight--;
        request.onSettled?.(hasResult);
        this.#sendNext();
      });
    }
  }
}
