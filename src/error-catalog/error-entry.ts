/** The clients that need other advice, as docs/ERRORS.md describes them. */
export const SPECIAL_CLIENTS = { sse: "On `/messages`", browser: "In a browser", page: "On `/page/events`" } as const;
export type SpecialClient = keyof typeof SPECIAL_CLIENTS;

export interface ErrorEntry {
  readonly httpStatus: number;
  readonly jsonRpcCode: number;
  /** The code for requests without a session; undefined if it is the same, or that of an internal error. */
  readonly modernCode?: number;
  readonly when: string;
  /** Advice for the client, also the `action` of the error's data. */
  readonly action: string;
  /** The advice if the request was sent. Undefined if it is the same, or if `sent` has one value only for this error. */
  readonly actionIfSent?: string;
  /** The advice for special clients, if it differs. */
  readonly actionFor?: Readonly<Partial<Record<SpecialClient, string>>>;
}
