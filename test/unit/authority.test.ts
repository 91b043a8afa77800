import { describe, expect, it } from "vitest";
import { isLocalhost, parseAuthority, parseOrigin } from "../../src/authority.ts";

describe("parseAuthority", () => {
  it.each([
    ["localhost", "localhost", undefined],
    ["LOCALHOST:8080", "localhost", 8080],
    ["mcp.example:80", "mcp.example", 80],
    ["Mcp.Example.", "mcp.example", undefined],
    ["localhost.:8080", "localhost", 8080],
    ["my_service:65535", "my_service", 65_535],
    ["127.0.0.1:8080", "127.0.0.1", 8080],
    ["127.1", "127.0.0.1", undefined],
    ["0x7f000001", "127.0.0.1", undefined],
    ["127.0.0.1.", "127.0.0.1", undefined],
    ["[::1]", "[::1]", undefined],
    ["[::1]:8080", "[::1]", 8080],
    ["[0:0:0:0:0:0:0:1]:1", "[::1]", 1],
    ["[2001:DB8::A]", "[2001:db8::a]", undefined],
    ["[::ffff:127.0.0.1]", "[::ffff:7f00:1]", undefined],
    ["xn--bcher-kva.example", "xn--bcher-kva.example", undefined],
    ["localhost.evil.com", "localhost.evil.com", undefined],
  ])("reads %s", (text, host, port) => {
    expect(parseAuthority(text)).toEqual({ host, port });
  });

  it.each([
    "",
    ".",
    " localhost",
    "localhost ",
    "localhost\n",
    "localhost:",
    ":8080",
    "localhost:65536",
    "localhost:080808",
    "localhost:-1",
    "localhost:80:80",
    "localhost,evil.com",
    "localhost@evil.com",
    "user:secret@localhost",
    "localhost/path",
    "localhost?evil.com",
    "localhost#evil.com",
    "localhost\\@evil.com",
    "http://localhost",
    "%6cocalhost",
    "*.example",
    "::1",
    "[::1",
    "[]",
    "[::1%25lo]",
    "[localhost]",
    "1.2.3.4.5",
    "bücher.example",
    "ｌｏｃａｌｈｏｓｔ",
    "loc\u{aa}lhost",
    "127。0。0。1",
  ])("does not take %j for one", (text) => {
    expect(parseAuthority(text)).toBeUndefined();
  });
});

describe("parseOrigin", () => {
  it.each([
    ["https://app.example", "https://app.example"],
    ["HTTPS://App.Example", "https://app.example"],
    ["http://app.example:80", "http://app.example"],
    ["https://app.example:443", "https://app.example"],
    ["https://app.example:0443", "https://app.example"],
    ["https://app.example:80", "https://app.example:80"],
    ["http://app.example:443", "http://app.example:443"],
    ["http://localhost:5173", "http://localhost:5173"],
    ["https://app.example.", "https://app.example."],
    ["http://[0:0:0:0:0:0:0:1]:3000", "http://[::1]:3000"],
    ["http://127.0.0.1", "http://127.0.0.1"],
    ["https://xn--bcher-kva.example", "https://xn--bcher-kva.example"],
    ["chrome-extension://ABCDEFGHIJKLMNOP", "chrome-extension://abcdefghijklmnop"],
    ["vscode-webview://0d3f-0x1", "vscode-webview://0d3f-0x1"],
    ["vscode-webview://123", "vscode-webview://123"],
    ["tauri://localhost:80", "tauri://localhost:80"],
  ])("spells %s as browsers do", (text, origin) => {
    expect(parseOrigin(text)).toBe(origin);
  });

  it.each([
    "",
    "null",
    "*",
    "https://",
    "https://:443",
    "//app.example",
    "app.example",
    "https:app.example",
    "https:/app.example",
    "https://app.example/",
    "https://app.example/path",
    "https://app.example?x",
    "https://app.example#x",
    "https://user@app.example",
    "http://localhost@evil.com",
    "http://localhost:80@evil.com",
    "http://localhost\\.evil.com",
    "https://app.example https://evil.com",
    "https://app.example, https://evil.com",
    "https://app.example:65536",
    "https://app.example:",
    "https://*.example",
    "https://b\u{fc}cher.example",
    "https://1.2.3.4.5",
    " https://app.example",
    "https://app.example\n",
    "1http://app.example",
  ])("does not take %j for one", (text) => {
    expect(parseOrigin(text)).toBeUndefined();
  });
});

describe("isLocalhost", () => {
  it.each(["localhost", "127.0.0.1", "127.255.255.254", "[::1]", "[::ffff:7f00:1]", "[::ffff:7fff:fffe]"])("is %s", (host) => {
    expect(isLocalhost(host)).toBe(true);
  });

  it.each([
    "",
    "localhost.evil.com",
    "evil-localhost",
    "evil.localhost",
    "localhost.localdomain",
    "127.0.0.1.evil.com",
    "127.evil.com",
    "128.0.0.1",
    "0.0.0.0",
    "10.127.0.1",
    "[::]",
    "[::2]",
    "[::ffff:8000:1]",
    "[::7f00:1]",
  ])("is not %j", (host) => {
    expect(isLocalhost(host)).toBe(false);
  });
});
