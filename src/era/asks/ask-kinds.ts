/** The kinds of questions that a server with sessions asks its client, as bits of a set (MCP 2025-11-25, client/elicitation, client/sampling). */
export const AskKind = { form: 1, url: 2, sampling: 4, samplingTools: 8, roots: 16 } as const;

/** A set of kinds. 0 is the empty set. */
export type AskKinds = number;

const NAMES = [
  [AskKind.form, "elicitation.form"],
  [AskKind.url, "elicitation.url"],
  [AskKind.sampling, "sampling"],
  [AskKind.samplingTools, "sampling.tools"],
] as const;

/**
 * Returns the kinds that a server is offered. Roots are not: servers keep them for the whole process, so the roots of one client would rule
 * the calls of others. A server that asks for them nevertheless, during a call, gets the roots of that call's client.
 */
export function offeredKinds(declared: AskKinds): AskKinds {
  return declared & ~AskKind.roots;
}

/** True if all kinds of the first set are in the second one. */
export function isSubset(kinds: AskKinds, of: AskKinds): boolean {
  return (kinds & ~of) === 0;
}

export function countKinds(kinds: AskKinds): number {
  return NAMES.filter(([kind]) => isSubset(kind, kinds)).length;
}

/** Returns the name of a set, for `/status` and logs. */
export function nameOf(kinds: AskKinds): string {
  return NAMES.filter(([kind]) => isSubset(kind, kinds))
    .map(([, name]) => name)
    .join("+");
}

/** Returns the client capabilities that permit these questions. */
export function capabilitiesFor(kinds: AskKinds): Readonly<Record<string, object>> {
  const form = isSubset(AskKind.form, kinds) ? { form: {} } : undefined;
  const url = isSubset(AskKind.url, kinds) ? { url: {} } : undefined;
  return {
    ...(form === undefined && url === undefined ? {} : { elicitation: { ...form, ...url } }),
    ...(isSubset(AskKind.sampling, kinds) ? { sampling: isSubset(AskKind.samplingTools, kinds) ? { tools: {} } : {} } : {}),
  };
}
