/** Records what a client sends. */
export class RecordedRequests {
  /** The JSON-RPC methods of those that have a response; undefined for one without a message. */
  readonly methods: (string | undefined)[] = [];
  readonly #streamAnswered = Promise.withResolvers<number>();
  /** The status of the response to the GET for the stream, which a client sends by itself after the handshake. */
  readonly streamStatus = this.#streamAnswered.promise;

  readonly fetch = async (target: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await fetch(target, init);
    if ((init?.method ?? "GET") === "GET") this.#streamAnswered.resolve(response.status);
    this.methods.push(typeof init?.body === "string" ? (JSON.parse(init.body) as { method?: string }).method : undefined);
    return response;
  };
}
