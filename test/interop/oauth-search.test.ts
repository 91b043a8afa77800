import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Sidecar } from "../support/sidecar.ts";

const IDENTITY = { name: "interop", version: "1.0.0" };
const REASON =
  "There is nothing at /register; the MCP endpoint is /mcp. The sidecar has no OAuth; clients need the header `Authorization: Bearer TOKEN`.";

const authProvider: OAuthClientProvider = {
  redirectUrl: "http://127.0.0.1:1/callback",
  clientMetadata: { redirect_uris: ["http://127.0.0.1:1/callback"], client_name: "interop" },
  clientInformation: () => undefined,
  saveClientInformation: () => undefined,
  tokens: () => undefined,
  saveTokens: () => undefined,
  redirectToAuthorization: () => undefined,
  saveCodeVerifier: () => undefined,
  codeVerifier: () => "verifier",
};

const sidecar = disposeAfterAll(await Sidecar.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: "a-token-of-some-length" } }));

it.each<[sdk: string, connect: (url: URL) => Promise<void>, message: unknown]>([
  ["1.x", (url) => new Client(IDENTITY).connect(new StreamableHTTPClientTransport(url, { authProvider })), REASON],
  ["2.x", (url) => new Client2(IDENTITY).connect(new Transport2(url, { authProvider })), expect.stringContaining(REASON)],
])("the client of SDK %s shows the sidecar's sentence", async (_sdk, connect, message) => {
  await expect(connect(new URL(sidecar.url))).rejects.toMatchObject({ message });
});
