/** The outcome of a call: data, or an error that the model can understand. */
export type Outcome =
  | { readonly ok: true; readonly data: unknown; readonly truncated?: true }
  | { readonly ok: false; readonly error: { readonly code: string; readonly message: string } & Readonly<Record<string, unknown>> };

export function failure(code: string, message: string, details: Readonly<Record<string, unknown>> = {}): Outcome {
  return { ok: false, error: { code, message, ...details } };
}

/** A failure that cannot have taken effect, so that the call may be made again. */
export function notSent(code: string, message: string): Outcome {
  return failure(code, message, { sent: false });
}

/** Returns an outcome as JSON of at most this many bytes. Longer data becomes its beginning, as a text, with `"truncated": true`. */
export function outcomeText(outcome: Outcome, maxBytes: number): string {
  const text = JSON.stringify(outcome);
  const bytes = Buffer.byteLength(text);
  if (bytes <= maxBytes) return text;
  const isText = outcome.ok && typeof outcome.data === "string";
  const content = outcome.ok ? (isText ? outcome.data : JSON.stringify(outcome.data)) : errorText(outcome.error);
  // JSON escapes take room, so the length that fits is searched for.
  let [fits, tooLong] = [0, Math.min(content.length, maxBytes)];
  while (fits < tooLong) {
    const middle = Math.ceil((fits + tooLong) / 2);
    if (Buffer.byteLength(cut(outcome, content, middle, bytes)) <= maxBytes) fits = middle;
    else tooLong = middle - 1;
  }
  return cut(outcome, content, fits, bytes);
}

/** The message, and the details if there are any, such as the body of a response. */
function errorText({ code, message, ...details }: (Outcome & { ok: false })["error"]): string {
  return Object.keys(details).length === 0 ? message : `${code}: ${message} ${JSON.stringify(details)}`;
}

function cut(outcome: Outcome, content: string, length: number, total_bytes: number): string {
  // Half of a surrogate pair would become another character.
  const beginning = content
    .slice(0, length)
    .toWellFormed()
    .replace(/\uFFFD$/, "");
  const facts = { truncated: true, total_bytes };
  if (outcome.ok) return JSON.stringify({ ok: true, ...facts, data: beginning });
  return JSON.stringify({ ok: false, ...facts, error: { code: outcome.error.code, message: beginning } });
}
