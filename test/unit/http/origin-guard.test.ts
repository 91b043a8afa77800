import { describe, expect, it } from "vitest";
import { createHostCheck, createOriginCheck, targetAuthority } from "../../../src/http/origin-guard.ts";

describe("createOriginCheck", () => {
  const ofThisMachine = createOriginCheck(undefined);

  it.each([
    "http://localhost",
    "https://localhost",
    "http://localhost:5173",
    "HTTP://LOCALHOST:5173",
    "http://127.0.0.1:6274",
    "https://127.0.0.1",
    "http://[::1]:3000",
    "http://[0:0:0:0:0:0:0:1]",
  ])("allows %s where nothing is configured", (origin) => {
    expect(ofThisMachine(origin)).toBe(true);
  });

  it.each([
    "",
    "null",
    "*",
    "http://evil.com",
    "http://localhost.evil.com",
    "http://evil-localhost",
    "http://evil.localhost",
    "http://localhost.",
    "http://localhost@evil.com",
    "http://evil.com@localhost",
    "http://evil.com#localhost",
    "http://localhost:80, http://evil.com",
    "http://localhost, http://localhost",
    "http://127.0.0.1.evil.com",
    "http://127.0.0.2",
    "http://0.0.0.0",
    "http://[::]",
    "http://[::1].evil.com",
    "localhost",
    "http://localhost/",
    "http://localhost:99999",
    "file://localhost",
    "ftp://localhost",
    "chrome-extension://localhost",
    "httpx://localhost",
    "http://ｌｏｃａｌｈｏｓｔ",
  ])("refuses %j where nothing is configured", (origin) => {
    expect(ofThisMachine(origin)).toBe(false);
  });

  const listed = createOriginCheck(["https://app.example", "http://localhost:5173", "https://xn--bcher-kva.example", "tauri://localhost"]);

  it.each([
    "https://app.example",
    "https://APP.example",
    "https://app.example:443",
    "http://localhost:5173",
    "https://xn--bcher-kva.example",
    "tauri://localhost",
  ])("allows %s, which is listed", (origin) => {
    expect(listed(origin)).toBe(true);
  });

  it.each([
    "http://app.example",
    "https://app.example:8443",
    "https://www.app.example",
    "https://app.example.evil.com",
    "https://app.example.",
    "https://user@app.example",
    "https://app.example/",
    "https://app.example, https://app.example",
    "https://bücher.example",
    "http://localhost",
    "http://localhost:3000",
    "http://127.0.0.1:5173",
    "null",
    "",
  ])("refuses %j, which is not", (origin) => {
    expect(listed(origin)).toBe(false);
  });

  it("allows every origin by *, also that of a page without one", () => {
    expect(["https://evil.com", "null", "file://", "http://localhost"].map(createOriginCheck("*"))).toEqual([true, true, true, true]);
  });
});

describe("createHostCheck", () => {
  it.each([undefined, "0.0.0.0", "::", "10.0.0.5", "fe80::1", "mcp.example", "localhost.evil.com"])(
    "checks nothing where nothing is configured and it listens on %s",
    (listenHost) => {
      expect(createHostCheck({ allowedHosts: undefined, listenHost })).toBeUndefined();
    },
  );

  describe.each(["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.53", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"])(
    "where nothing is configured and it listens on %s",
    (listenHost) => {
      const isAllowed = createHostCheck({ allowedHosts: undefined, listenHost });

      it("allows the names of this machine at any port", () => {
        const names = ["localhost", "localhost:8080", "LocalHost:1", "localhost.", "127.0.0.1:9", "127.0.0.2", "[::1]", "[::1]:8080"];
        names.push("127.1", "0x7f000001", "127.0.0.1.", "127.255.255.254", "[0:0:0:0:0:0:0:1]:1", "[::ffff:127.0.0.1]");
        expect(names.filter((name) => isAllowed?.(name) !== true)).toEqual([]);
      });

      it("refuses every other", () => {
        const names = [
          "",
          "evil.com",
          "evil.com:8080",
          "localhost.evil.com",
          "evil-localhost",
          "evil.localhost",
          "127.0.0.1.evil.com",
          "localhost@evil.com",
          "localhost:80@evil.com",
          "localhost, evil.com",
          "localhost:",
          "0.0.0.0",
          "[::]",
          "10.0.0.5",
          "::1",
          "ｌｏｃａｌｈｏｓｔ",
          "loc\u{aa}lhost",
          "127。0。0。1",
          "%6cocalhost",
          " localhost",
          "localhost ",
          "localhost\n",
          ".",
          "*.localhost",
          "localhost:65536",
          "localhost:080808",
          "localhost:-1",
          "localhost:80:80",
          ":8080",
          "user:secret@localhost",
          "localhost/path",
          "localhost?evil.com",
          "localhost#evil.com",
          "localhost\\@evil.com",
          "http://localhost",
          "[::1",
          "[]",
          "[::1%25lo]",
          "[localhost]",
          "[::2]",
          "[::ffff:8000:1]",
          "[::7f00:1]",
          "localhost.localdomain",
          "127.evil.com",
          "128.0.0.1",
          "10.127.0.1",
          "1.2.3.4.5",
        ];
        expect(names.filter((name) => isAllowed?.(name) !== false)).toEqual([]);
      });
    },
  );

  describe("where every host would be allowed, but not those that a web page may have", () => {
    const isAllowed = createHostCheck({ allowedHosts: undefined, listenHost: undefined, refusesRebindable: true });

    it.each([
      "localhost",
      "127.0.0.1:8080",
      "10.1.2.3:8080",
      "[fd00::1]:8080",
      "mcp-sidecar:8080",
      "mcp.tools.svc",
      "mcp.tools.svc.cluster.local",
      "host.docker.internal:8080",
      "printer.local.",
    ])("allows %s", (host) => {
      expect(isAllowed?.(host)).toBe(true);
    });

    it.each(["evil.com", "evil.com:8080", "EVIL.com.", "127.0.0.1.evil.com", "local.evil.com", "evil.notlocal", "", "a b"])(
      "does not allow %j",
      (host) => {
        expect(isAllowed?.(host)).toBe(false);
      },
    );

    it("leaves hosts that are configured as they are", () => {
      const isListed = createHostCheck({ allowedHosts: ["mcp.example"], listenHost: undefined, refusesRebindable: true });
      expect(["mcp.example", "10.1.2.3"].map((host) => isListed?.(host))).toEqual([true, false]);
    });
  });

  describe.each([undefined, "127.0.0.1"])("where hosts are configured and it listens on %s", (listenHost) => {
    const allowedHosts = ["mcp.example", "only.example:8443", "tls.example:443", "plain.example:80", "[2001:db8::1]", "10.0.0.5:8080"];
    const isAllowed = createHostCheck({ allowedHosts, listenHost });

    it.each([
      "mcp.example",
      "MCP.EXAMPLE:8080",
      "mcp.example.",
      "mcp.example.:8080",
      "only.example:8443",
      "tls.example",
      "tls.example:443",
      "plain.example",
      "plain.example:80",
      "[2001:db8::1]",
      "[2001:DB8:0::1]:8080",
      "10.0.0.5:8080",
      "localhost:8080",
      "127.0.0.1",
      "[::1]:1",
    ])("allows %s", (name) => {
      expect(isAllowed?.(name)).toBe(true);
    });

    it.each([
      "evil.com",
      "www.mcp.example",
      "mcp.example.evil.com",
      "only.example",
      "only.example:8444",
      "tls.example:80",
      "plain.example:443",
      "10.0.0.5",
      "10.0.0.5:80",
      "2001:db8::1",
      "",
    ])("refuses %j", (name) => {
      expect(isAllowed?.(name)).toBe(false);
    });
  });

  it("does not let a host in for the one before it", () => {
    const isAllowed = createHostCheck({ allowedHosts: ["mcp.example", "only.example:8443"], listenHost: undefined });
    const names = ["mcp.example", "mcp.example", "evil.com", "evil.com", "mcp.example:1", "only.example:8443", "only.example", "localhost"];
    expect(names.map((name) => isAllowed?.(name))).toEqual([true, true, false, false, true, true, false, true]);
  });
});

describe("targetAuthority", () => {
  it.each([
    ["http://mcp.example/mcp", "mcp.example"],
    ["HTTPS://mcp.example:8443/mcp?x=http://other", "mcp.example:8443"],
    ["http://localhost@evil.com/mcp", "localhost@evil.com"],
    ["http://localhost\\@evil.com/mcp", "localhost\\@evil.com"],
    ["http://localhost#@evil.com/mcp", "localhost#@evil.com"],
    ["http://mcp.example?x", "mcp.example"],
    ["http:///mcp", ""],
  ])("of %s is %j", (url, authority) => {
    expect(targetAuthority(url)).toBe(authority);
  });

  it.each(["/mcp", "/mcp?u=http://evil.com/", "//evil.com/mcp", "*", "", "ftp://evil.com/mcp"])("is none of %j", (url) => {
    expect(targetAuthority(url)).toBeUndefined();
  });
});
