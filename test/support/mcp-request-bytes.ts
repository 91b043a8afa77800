/** A whole POST to the endpoint as it goes over the wire, for connections that are written by hand. */
export function postBytes(message: object, sessionId?: string): string {
  const body = JSON.stringify(message);
  return [
    "POST /mcp HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    ...(sessionId === undefined ? [] : [`Mcp-Session-Id: ${sessionId}`]),
    `Content-Length: ${Buffer.byteLength(body)}`,
    "",
    body,
  ].join("\r\n");
}

export function getBytes(path: string): string {
  return `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`;
}
