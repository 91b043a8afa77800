import { describe, expect, it } from "vitest";
import {
  anyText,
  bearerToken,
  count,
  describeInvalid,
  endpointPath,
  hosts,
  jsonStrings,
  listenAddress,
  listenHost,
  oneOf,
  origins,
  port,
} from "../../../src/config/option.ts";

function words(text: string): string[] {
  return text.trim().split(/\s+/);
}

interface Case {
  readonly kind: { readonly expected: string; readonly parse: (text: string) => unknown };
  readonly expected?: string;
  /** The text of each valid value, and what it means if that is not the text itself. */
  readonly valid: Readonly<Record<string, unknown>> | readonly string[];
  readonly invalid: readonly string[];
}

const KINDS: Readonly<Record<string, Case>> = {
  "a whole number": {
    kind: count(1000),
    expected: "a whole number from 1 to 1000",
    valid: { "1": 1, "1000": 1000, "007": 7 },
    invalid: ["", " 1", "1 ", "1\n", ...words("0 -1 +1 1.0 1e2 0x10 1_000 one NaN Infinity 1001 99999999999999999999 ٣")],
  },
  "a port": {
    kind: port,
    expected: "a whole number from 1 to 65535, with or without a colon before it",
    valid: { "8080": 8080, ":8080": 8080, "1": 1, "65535": 65_535 },
    invalid: ["8080 ", ...words("0 65536 ::8080 8080: -1 localhost:8080 :")],
  },
  "a listen address": {
    kind: listenAddress,
    expected: "host:port, [ipv6]:port or :port, with a port up to 65535",
    valid: {
      ":8080": { host: undefined, port: 8080 },
      "0.0.0.0:8080": { host: "0.0.0.0", port: 8080 },
      "my-host.example:65535": { host: "my-host.example", port: 65_535 },
      "[::1]:8080": { host: "::1", port: 8080 },
      "[::FFFF:127.0.0.1]:8080": { host: "::FFFF:127.0.0.1", port: 8080 },
      "127.0.0.1:0": { host: "127.0.0.1", port: 0 },
    },
    invalid: ["a b:80", ":80\n", ...words("8080 localhost localhost: : ::1:8080 [::1] [::1:8080 []:80 http://a:80 :080808 :65536 :-1")],
  },
  "a host to listen on": {
    kind: listenHost,
    valid: { "*": "*", localhost: "localhost", "10.0.0.5": "10.0.0.5", "::": "::", "[::1]": "::1" },
    invalid: ["a b", ...words("localhost:80 [::1]:80 :80 [10.0.0.5] [] http://a :::")],
  },
  "a list of arguments": {
    kind: jsonStrings,
    valid: { "[]": [], '["-y","some mcp",""]': ["-y", "some mcp", ""], ' [ "\\u0061$HOME" ] ': ["a$HOME"] },
    invalid: ["", ...words(`-y "-y" {} [1] ["-y",null] ["a\\u0000b"] ["-y" null [["-y"]] ['-y']`)],
  },
  "any text": { kind: anyText("FILE"), valid: ["server", "", " a b\n"], invalid: ["a\0b"] },
  "an endpoint path": {
    kind: endpointPath,
    valid: words("/ /mcp /a/b-c_d.e~f /%7Eme /mcp/ /healthz/mcp /status/mcp /statuses /mcp%zz /sse"),
    invalid: [
      "",
      "/m cp",
      "/mcp\n",
      ...words("mcp http://a/mcp /mcp?x=1 /mcp#x /livez /readyz /healthz /metrics /status /status/ /Status /%73tatus"),
      ...words("/%2e/status /./status /mcp/../status //status /status// /%2Fstatus"),
    ],
  },
  "a list of origins": {
    kind: origins,
    valid: {
      " * ": "*",
      "https://app.example": ["https://app.example"],
      "HTTPS://App.Example:443, http://localhost:5173 ,http://[::1]": ["https://app.example", "http://localhost:5173", "http://[::1]"],
      "chrome-extension://ABCdefgh,vscode-webview://0d3f": ["chrome-extension://abcdefgh", "vscode-webview://0d3f"],
      "tauri://localhost:80,https://app.example:80": ["tauri://localhost:80", "https://app.example:80"],
      "https://app.example:0443,http://app.example:80": ["https://app.example", "http://app.example"],
      "http://app.example:443,https://app.example.": ["http://app.example:443", "https://app.example."],
      "http://[0:0:0:0:0:0:0:1]:3000,https://xn--bcher-kva.example": ["http://[::1]:3000", "https://xn--bcher-kva.example"],
    },
    invalid: [
      "",
      "https://app.example https://b.example",
      ...words(", https://app.example, https://a.example,,https://b.example *,https://app.example null app.example https://app.example/"),
      ...words("https://*.example https://user@app.example https://app.example;https://b.example https://app.example:65536 https://"),
      ...words("https://app.example: https://bücher.example https://:443 //app.example https:app.example https:/app.example"),
      ...words("https://app.example/path https://app.example?x https://app.example#x http://localhost@evil.com 1http://app.example"),
      ...words("http://localhost:80@evil.com http://localhost\\.evil.com https://1.2.3.4.5"),
    ],
  },
  "a list of hosts": {
    kind: hosts,
    valid: {
      " * ": "*",
      "Mcp.Example.:8080, 10.0.0.5 ,[2001:DB8::1]:80": ["mcp.example:8080", "10.0.0.5", "[2001:db8::1]:80"],
      "*.Mcp.Example,*.mcp.example:8443": ["*.mcp.example", "*.mcp.example:8443"],
      "my_service,xn--bcher-kva.example": ["my_service", "xn--bcher-kva.example"],
      "127.1,[::FFFF:127.0.0.1]": ["127.0.0.1", "[::ffff:7f00:1]"],
    },
    invalid: [
      "",
      "a b",
      ...words(", mcp.example, *,mcp.example *example *. mcp.* *.*.example http://mcp.example mcp.example/mcp ::1 mcp.example:"),
      "bücher.example",
    ],
  },
  "a token": {
    kind: bearerToken,
    valid: ["t", "s3cret-token", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"],
    invalid: ["", "two words", " t", "t\n", "t\t", "tök", "t\u007f", "t\u0000"],
  },
  "one of several words": {
    kind: oneOf(["info", "debug"]),
    expected: "one of info, debug",
    valid: ["info", "debug"],
    invalid: ["INFO", "inf", "", " info", "0", "length"],
  },
};

describe.each(Object.entries(KINDS))("%s", (_name, { kind, expected, valid, invalid }) => {
  it("valid texts have their value, and all others have none", () => {
    const texts = Array.isArray(valid) ? Object.fromEntries((valid as string[]).map((text) => [text, text])) : valid;
    expect(Object.fromEntries(Object.keys(texts).map((text) => [text, kind.parse(text)]))).toEqual(texts);
    expect(invalid.filter((text) => kind.parse(text) !== undefined)).toEqual([]);
    expect(kind.expected).toBe(expected ?? kind.expected);
  });
});

describe("the problem of a list of arguments", () => {
  it.each([
    ["-y s3cret", "it is not JSON from character 1 on"],
    ["", "it is not JSON from its end on"],
    ['["--token","s3cret",]', "it is not JSON from character 21 on"],
    ['["--token" "s3cret"]', "it is not JSON from character 12 on"],
    ['["--token","s3cret', "it is not JSON from character 12 on"],
    ["['s3cret']", "it is not JSON from character 2 on"],
    ['["a"] s3cret', "it is not JSON from character 7 on"],
    ['{"s3cret":1}', "it is an object, not an array"],
    ["null", "it is null, not an array"],
    ['["a",1]', "element 2 is a number, not a string"],
    ['["a","b","s3\\u0000cret"]', "element 3 contains NUL"],
  ])("the problem of %j has a place and a reason but none of the text", (text, reason) => {
    expect(jsonStrings.explain?.(text)).toBe(reason);
    expect(describeInvalid("ARGS", text === "" ? " " : text, jsonStrings)).not.toContain("s3");
  });
});
