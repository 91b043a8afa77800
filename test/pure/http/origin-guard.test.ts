import { describe, expect, it } from "vitest";
import { createHostCheck, createOriginCheck, pathAndQuery, targetAuthority } from "../../../src/http/guards/origin-guard.ts";

describe("the check of origins", () => {
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
  ])("the origin %s is allowed by default", (origin) => {
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
  ])("the origin %j is rejected by default", (origin) => {
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
  ])("the listed origin %s is allowed", (origin) => {
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
  ])("the unlisted origin %j is rejected", (origin) => {
    expect(listed(origin)).toBe(false);
  });

  it("every origin is allowed by *, null too", () => {
    expect(["https://evil.com", "null", "file://", "http://localhost"].map(createOriginCheck("*"))).toEqual([true, true, true, true]);
  });
});

describe("the check of hosts", () => {
  it.each([undefined, "0.0.0.0", "::", "10.0.0.5", "fe80::1", "mcp.example", "localhost.evil.com"])(
    "the default has no check if the sidecar listens on %s",
    (listenHost) => {
      expect(createHostCheck({ allowedHosts: undefined, listenHost })).toBeUndefined();
    },
  );

  describe.each(["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.53", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"])(
    "the default check of a sidecar that listens on %s",
    (listenHost) => {
      const isAllowed = createHostCheck({ allowedHosts: undefined, listenHost });

      it("the names of this machine are allowed at any port", () => {
        const names = ["localhost", "localhost:8080", "LocalHost:1", "localhost.", "127.0.0.1:9", "127.0.0.2", "[::1]", "[::1]:8080"];
        names.push("127.1", "0x7f000001", "127.0.0.1.", "127.255.255.254", "[0:0:0:0:0:0:0:1]:1", "[::ffff:127.0.0.1]");
        expect(names.filter((name) => isAllowed?.(name) !== true)).toEqual([]);
      });

      it("every other name is rejected", () => {
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
          "localhost:008080",
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

  describe("the check against names that a web page may have", () => {
    const isAllowed = createHostCheck({ allowedHosts: undefined, listenHost: undefined, rejectsRebindable: true });

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
    ])("the host %s is allowed", (host) => {
      expect(isAllowed?.(host)).toBe(true);
    });

    it.each(["evil.com", "evil.com:8080", "EVIL.com.", "127.0.0.1.evil.com", "local.evil.com", "evil.notlocal", "", "a b"])(
      "the host %j is rejected",
      (host) => {
        expect(isAllowed?.(host)).toBe(false);
      },
    );

    it("the configured hosts stay as they are", () => {
      const isListed = createHostCheck({ allowedHosts: ["mcp.example"], listenHost: undefined, rejectsRebindable: true });
      expect(["mcp.example", "10.1.2.3"].map((host) => isListed?.(host))).toEqual([true, false]);
    });
  });

  describe.each([undefined, "127.0.0.1"])("the configured hosts of a sidecar that listens on %s", (listenHost) => {
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
    ])("the host %s is allowed", (name) => {
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
    ])("the host %j is rejected", (name) => {
      expect(isAllowed?.(name)).toBe(false);
    });
  });

  it("an allowed host lets no later one in", () => {
    const isAllowed = createHostCheck({ allowedHosts: ["mcp.example", "only.example:8443"], listenHost: undefined });
    const names = ["mcp.example", "mcp.example", "evil.com", "evil.com", "mcp.example:1", "only.example:8443", "only.example", "localhost"];
    expect(names.map((name) => isAllowed?.(name))).toEqual([true, true, false, false, true, true, false, true]);
  });
});

describe("the host in a request target", () => {
  it.each([
    ["http://mcp.example/mcp", "mcp.example"],
    ["HTTPS://mcp.example:8443/mcp?x=http://other", "mcp.example:8443"],
    ["http://localhost@evil.com/mcp", "localhost@evil.com"],
    ["http://localhost\\@evil.com/mcp", "localhost\\@evil.com"],
    ["http://localhost#@evil.com/mcp", "localhost#@evil.com"],
    ["http://mcp.example?x", "mcp.example"],
    ["http:///mcp", ""],
    ["ftp://evil.com/mcp", "evil.com"],
    ["git+ssh://evil.com", "evil.com"],
  ])("the host in %s is %j", (url, authority) => {
    expect(targetAuthority(url)).toBe(authority);
  });

  it.each(["/mcp", "/mcp?u=http://evil.com/", "//evil.com/mcp", "*", "", "/x://evil.com/mcp", "evil.com:80"])(
    "the target %j has no host",
    (url) => {
      expect(targetAuthority(url)).toBeUndefined();
    },
  );

  it.each([
    ["/mcp?x", "/mcp?x"],
    ["//evil.com/mcp", "//evil.com/mcp"],
    ["http://localhost/mcp?x=1", "/mcp?x=1"],
    ["ftp://localhost/mcp/", "/mcp/"],
    ["http://localhost", "/"],
    ["http://localhost?x", "/?x"],
    ["http://localhost\\@evil.com/mcp", "/mcp"],
    ["*", undefined],
    ["evil.com:80", undefined],
  ])("the path of the target %s is %j", (target, path) => {
    expect(pathAndQuery(target)).toBe(path);
  });
});
