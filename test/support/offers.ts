export function offer(capabilities: object, more: object = {}): string {
  return JSON.stringify({ protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "fixture", version: "1.0.0" }, ...more });
}
