import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { Sidecar } from "../support/sidecar.ts";

const IDENTITY = { name: "interop", version: "1.0.0" };
const REASON = "The sidecar has no OAuth; clients need the header `Authorization: Bearer TOKEN`.";

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

it("the client of SDK 1.x shows the sidecar's sentence", async () => {
  const transport = new StreamableHTTPClientTransport(new URL(sidecar.url), { authProvider });
  const failure = await new Client(IDENTITY).connect(transport).catch((error: unknown) => (error as Error).message);
  expect(failure).toBe(`There is nothing at /register; the MCP endpoint is /mcp. ${REASON}`);
});

it("the client of SDK 2.x shows the sidecar's sentence", async () => {
  const transport = new Transport2(new URL(sidecar.url), { authProvider });
  const failure = await new Client2(IDENTITY).connect(transport).catch((error: unknown) => (error as Error).message);
  expect(failure).toContain(`There is nothing at /register; the MCP endpoint is /mcp. ${REASON}`);
});
