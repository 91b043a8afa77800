export interface SentRequest {
  readonly httpMethod: string;
  readonly method: string | undefined;
  readonly status: number;
}

/** Returns a `fetch` that reports each request as soon as its response begins. */
export function recordingFetch(report: (sent: SentRequest) => void): (target: string | URL, init?: RequestInit) => Promise<Response> {
  return async (target, init) => {
    const response = await fetch(target, init);
    const method = typeof init?.body === "string" ? (JSON.parse(init.body) as { method?: string }).method : undefined;
    report({ httpMethod: init?.method ?? "GET", method, status: response.status });
    return response;
  };
}
