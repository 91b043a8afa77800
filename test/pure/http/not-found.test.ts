import { describe, expect, it } from "vitest";
import { notFound, notFoundReason } from "../../../src/http/not-found.ts";

const OPTIONS = { path: "/mcp", hasToken: true, hasLegacySse: false, isSplit: false };
const SSE_HINT = "HTTP+SSE is off; --legacy-sse=on enables it.";
const PROBE_HINT = "Probes use /livez for the sidecar and /healthz for the MCP server.";
const OAUTH_HINT = "The sidecar has no OAuth; clients need the header `Authorization: Bearer TOKEN`.";

describe("the error of an unknown path", () => {
  it.each([
    ["/sse", SSE_HINT],
    ["/sse/", SSE_HINT],
    ["/message", SSE_HINT],
    ["/messages", SSE_HINT],
    ["/", "--page on shows a page here."],
    ["/ping", PROBE_HINT],
    ["/health", PROBE_HINT],
    ["/.well-known/oauth-protected-resource", OAUTH_HINT],
    ["/.well-known/oauth-authorization-server/mcp", OAUTH_HINT],
    ["/.well-known/openid-configuration", OAUTH_HINT],
    ["/mcp/.well-known/openid-configuration", OAUTH_HINT],
    ["/register", OAUTH_HINT],
    ["/authorize", OAUTH_HINT],
    ["/token", OAUTH_HINT],
  ])("%s gets the hint: %s", (path, hint) => {
    expect(notFound(path, OPTIONS).message).toBe(`There is nothing at ${path}; the MCP endpoint is /mcp. ${hint}`);
  });

  it.each(["/mcpx", "/SSE", "/sse/x", "/healthcheck", "/.well-known/x", "/registered", "that URL"])("%s gets no hint", (path) => {
    expect(notFound(path, OPTIONS).message).toBe(`There is nothing at ${path}; the MCP endpoint is /mcp.`);
  });

  it("paths for operators get the hint of their address, or of their option", () => {
    expect(notFound("/metrics", OPTIONS).message).toMatch(/; the MCP endpoint is \/mcp\. METRICS is off\.$/);
    expect(notFound("/status", { ...OPTIONS, isSplit: true }).message).toMatch(/ It is at ADMIN_ADDR\.$/);
    expect(notFound("/mcp", { ...OPTIONS, path: undefined, isSplit: true }).message).toBe(
      "There is nothing at /mcp; the MCP endpoint has another address.",
    );
  });

  it("a hint is omitted if its remedy is in effect or does not apply", () => {
    const paths = ["/message", "/register"];
    const options = { path: "/x", hasToken: false, hasLegacySse: true, isSplit: false };
    expect(paths.map((path) => notFound(path, options).message)).toEqual(
      paths.map((path) => `There is nothing at ${path}; the MCP endpoint is /x.`),
    );
  });
});

describe("the logged reason for an unknown path", () => {
  it("only requests for an OAuth server have a reason", () => {
    expect(notFoundReason("/.well-known/oauth-protected-resource")).toContain("looks for an OAuth server");
    expect(notFoundReason("/other")).toBeUndefined();
  });
});
