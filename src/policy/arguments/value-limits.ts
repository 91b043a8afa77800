/** True if a value consists of at most `limit` values. */
export function hasAtMost(limit: number, value: unknown): boolean {
  const open = [value];
  let count = 1;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== "object" || next === null) continue;
    const parts: unknown[] = Object.values(next);
    count += parts.length;
    if (count > limit) return false;
    for (const part of parts) open.push(part);
  }
  return true;
}

/** True if a value has more than `levels` levels. */
export function isDeeperThan(levels: number, value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > levels) return true;
    level = level.flatMap((part): unknown[] => (typeof part === "object" && part !== null ? Object.values(part) : []));
  }
  return false;
}
