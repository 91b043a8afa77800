import { describe, expect, it } from "vitest";
import { createHostCheck, createOriginCheck, pathAndQuery, targetAuthority } from "../../../src/http/guards.ts";

function words(list: string): string[] {
  return list.trim().split(/\s+/);
}

function wrong(check: ((name: string) => boolean) | undefined, names: readonly string[], expected: boolean): string[] {
  return names.filter((name) => check?.(name) !== expected);
}

describe("the check of origins", () => {
  it("the default allows pages of this machine only", () => {
    const check = createOriginCheck(undefined);
    const allowed = `http://localhost https://localhost http://localhost:5173 HTTP://LOCALHOST:5173 http://127.0.0.1:6274 https://127.0.0.1
      http://[::1]:3000 http://[0:0:0:0:0:0:0:1]`;
    expect(wrong(check, words(allowed), true)).toEqual([]);
    const rejected = `null * http://evil.com http://localhost.evil.com http://evil-localhost http://evil.localhost http://localhost.
      http://localhost@evil.com http://evil.com@localhost http://evil.com#localhost http://127.0.0.1.evil.com http://127.0.0.2 http://0.0.0.0
      http://[::] http://[::1].evil.com localhost http://localhost/ http://localhost:99999 file://localhost ftp://localhost
      chrome-extension://localhost httpx://localhost http://ｌｏｃａｌｈｏｓｔ`;
    expect(
      wrong(check, ["", "http://localhost:80, http://evil.com", "http://localhost, http://localhost", ...words(rejected)], false),
    ).toEqual([]);
  });

  it("listed origins are allowed, and no others", () => {
    const listed = "https://app.example http://localhost:5173 https://xn--bcher-kva.example tauri://localhost";
    const check = createOriginCheck(words(listed));
    expect(wrong(check, [...words(listed), "https://APP.example", "https://app.example:443"], true)).toEqual([]);
    const rejected = `http://app.example https://app.example:8443 https://www.app.example https://app.example.evil.com https://app.example.
      https://user@app.example https://app.example/ https://bücher.example http://localhost http://localhost:3000 http://127.0.0.1:5173 null`;
    expect(wrong(check, ["", "https://app.example, https://app.example", ...words(rejected)], false)).toEqual([]);
  });
});

describe("the check of hosts", () => {
  it.each([undefined, "0.0.0.0", "::", "10.0.0.5", "fe80::1", "mcp.example", "localhost.evil.com"])(
    "the default has no check if the sidecar listens on %s",
    (listenHost) => {
      expect(createHostCheck(undefined, listenHost)).toBeUndefined();
    },
  );

  it.each(["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.53", "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"])(
    "the default allows only the names of this machine, at any port, if the sidecar listens on %s",
    (listenHost) => {
      const check = createHostCheck(undefined, listenHost);
      const allowed = `localhost localhost:8080 LocalHost:1 localhost. 127.0.0.1:9 127.0.0.2 [::1] [::1]:8080 127.1 0x7f000001 127.0.0.1.
        127.255.255.254 [0:0:0:0:0:0:0:1]:1 [::ffff:127.0.0.1]`;
      expect(wrong(check, words(allowed), true)).toEqual([]);
      const rejected = `evil.com evil.com:8080 localhost.evil.com evil-localhost evil.localhost 127.0.0.1.evil.com localhost@evil.com
        localhost:80@evil.com localhost: 0.0.0.0 [::] 10.0.0.5 ::1 ｌｏｃａｌｈｏｓｔ loc\u{aa}lhost 127。0。0。1 %6cocalhost . *.localhost
        localhost:65536 localhost:080808 localhost:008080 localhost:-1 localhost:80:80 :8080 user:secret@localhost localhost/path
        localhost?evil.com localhost#evil.com localhost\\@evil.com http://localhost [::1 [] [::1%25lo] [localhost] [::2] [::ffff:8000:1]
        [::7f00:1] localhost.localdomain 127.evil.com 128.0.0.1 10.127.0.1 1.2.3.4.5`;
      expect(wrong(check, ["", "localhost, evil.com", " localhost", "localhost ", "localhost\n", ...words(rejected)], false)).toEqual([]);
    },
  );

  it("names that a web page may have are rejected on other interfaces, unless they are listed", () => {
    const check = createHostCheck(undefined, undefined, true);
    const allowed = `localhost 127.0.0.1:8080 10.1.2.3:8080 [fd00::1]:8080 mcp-sidecar:8080 mcp.tools.svc mcp.tools.svc.cluster.local
      host.docker.internal:8080 printer.local.`;
    expect(wrong(check, words(allowed), true)).toEqual([]);
    expect(
      wrong(check, ["", "a b", ...words("evil.com evil.com:8080 EVIL.com. 127.0.0.1.evil.com local.evil.com evil.notlocal")], false),
    ).toEqual([]);
    const listed = createHostCheck(["mcp.example"], undefined, true);
    expect(["mcp.example", "10.1.2.3"].map((host) => listed?.(host))).toEqual([true, false]);
  });

  it("*.host allows all names below a host, and not the host itself", () => {
    const check = createHostCheck(words("*.mcp.example *.only.example:8443"), undefined);
    expect(wrong(check, words("a.mcp.example A.B.MCP.Example.:8080 a.only.example:8443 localhost"), true)).toEqual([]);
    const rejected = "mcp.example .mcp.example amcp.example a.mcp.example.evil.com a.only.example a.only.example:80";
    expect(wrong(check, words(rejected), false)).toEqual([]);
  });

  it.each([undefined, "127.0.0.1"])("listed hosts and those of this machine are allowed if the sidecar listens on %s", (listenHost) => {
    const allowedHosts = words("mcp.example only.example:8443 tls.example:443 plain.example:80 [2001:db8::1] 10.0.0.5:8080");
    const check = createHostCheck(allowedHosts, listenHost);
    const allowed = `mcp.example MCP.EXAMPLE:8080 mcp.example. mcp.example.:8080 only.example:8443 tls.example tls.example:443 plain.example
      plain.example:80 [2001:db8::1] [2001:DB8:0::1]:8080 10.0.0.5:8080 localhost:8080 127.0.0.1 [::1]:1`;
    expect(wrong(check, words(allowed), true)).toEqual([]);
    const rejected = `evil.com www.mcp.example mcp.example.evil.com only.example only.example:8444 tls.example:80 plain.example:443 10.0.0.5
      10.0.0.5:80 2001:db8::1`;
    expect(wrong(check, ["", ...words(rejected)], false)).toEqual([]);
  });
});

describe("a request target", () => {
  it.each([
    ["http://mcp.example/mcp", "mcp.example", "/mcp"],
    ["HTTPS://mcp.example:8443/mcp?x=http://other", "mcp.example:8443", "/mcp?x=http://other"],
    ["http://localhost@evil.com/mcp", "localhost@evil.com", "/mcp"],
    ["http://localhost\\@evil.com/mcp", "localhost\\@evil.com", "/mcp"],
    ["http://localhost", "localhost", "/"],
    ["http://mcp.example?x", "mcp.example", "/?x"],
    ["http:///mcp", "", "/mcp"],
    ["ftp://evil.com/mcp/", "evil.com", "/mcp/"],
    ["/mcp?u=http://evil.com/", undefined, "/mcp?u=http://evil.com/"],
    ["//evil.com/mcp", undefined, "//evil.com/mcp"],
    ["*", undefined, undefined],
    ["evil.com:80", undefined, undefined],
  ])("%s has the host %j and the path %j", (target, authority, path) => {
    expect([targetAuthority(target), pathAndQuery(target)]).toEqual([authority, path]);
  });
});
