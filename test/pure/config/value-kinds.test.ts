import { describe, expect, it } from "vitest";
import {
  anyText,
  bearerToken,
  describeInvalid,
  endpointPath,
  hosts,
  jsonStrings,
  listenAddress,
  listenHost,
  oneOf,
  origins,
  port,
  wholeNumber,
} from "../../../src/config/value-kinds.ts";

describe("a whole number", () => {
  const kind = wholeNumber(1000);

  it.each([
    ["1", 1],
    ["1000", 1000],
    ["007", 7],
  ])("a whole number may be %s", (text, value) => {
    expect(kind.parse(text)).toBe(value);
  });

  it.each([
    "0",
    "-1",
    "+1",
    "1.0",
    "1e2",
    "0x10",
    "1_000",
    " 1",
    "1 ",
    "1\n",
    "one",
    "NaN",
    "Infinity",
    "1001",
    "99999999999999999999",
    "",
    "٣",
  ])("a whole number may not be %j", (text) => {
    expect(kind.parse(text)).toBeUndefined();
  });

  it("the allowed range is named", () => {
    expect(kind.expected).toBe("a whole number from 1 to 1000");
  });
});

describe("a port", () => {
  it.each([
    ["8080", 8080],
    [":8080", 8080],
    ["1", 1],
    ["65535", 65_535],
  ])("a port may be %s", (text, value) => {
    expect(port.parse(text)).toBe(value);
  });

  it.each(["0", "65536", "::8080", "8080:", "-1", "localhost:8080", ":", "8080 "])("a port may not be %j", (text) => {
    expect(port.parse(text)).toBeUndefined();
  });

  it("the allowed ports are named", () => {
    expect(port.expected).toBe("a whole number from 1 to 65535, with or without a colon before it");
  });
});

describe("a listen address", () => {
  it.each([
    [":8080", { host: undefined, port: 8080 }],
    ["0.0.0.0:8080", { host: "0.0.0.0", port: 8080 }],
    ["localhost:65535", { host: "localhost", port: 65_535 }],
    ["my-host.example:1", { host: "my-host.example", port: 1 }],
    ["[::1]:8080", { host: "::1", port: 8080 }],
    ["[::FFFF:127.0.0.1]:8080", { host: "::FFFF:127.0.0.1", port: 8080 }],
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
  ])("a listen address may be %s", (text, value) => {
    expect(listenAddress.parse(text)).toEqual(value);
  });

  it.each([
    "8080",
    "localhost",
    "localhost:",
    ":",
    "::1:8080",
    "[::1]",
    "[::1:8080",
    "[]:80",
    "a b:80",
    "http://a:80",
    ":080808",
    ":65536",
    ":-1",
    ":80\n",
  ])("a listen address may not be %j", (text) => {
    expect(listenAddress.parse(text)).toBeUndefined();
  });

  it("the allowed addresses are named", () => {
    expect(listenAddress.expected).toBe("host:port, [ipv6]:port or :port, with a port up to 65535");
  });
});

describe("a host to listen on", () => {
  it.each([
    ["*", "*"],
    ["localhost", "localhost"],
    ["10.0.0.5", "10.0.0.5"],
    ["::", "::"],
    ["[::1]", "::1"],
  ])("a host may be %s", (text, value) => {
    expect(listenHost.parse(text)).toBe(value);
  });

  it.each(["localhost:80", "[::1]:80", ":80", "[10.0.0.5]", "[]", "a b", "http://a", ":::"])("a host may not be %j", (text) => {
    expect(listenHost.parse(text)).toBeUndefined();
  });
});

describe("a list of arguments", () => {
  it.each([
    ["[]", []],
    ['["-y","some mcp",""]', ["-y", "some mcp", ""]],
    [' [ "\\u0061$HOME" ] ', ["a$HOME"]],
  ])("a list of arguments may be %s", (text, value) => {
    expect(jsonStrings.parse(text)).toEqual(value);
  });

  it.each(["-y", '"-y"', "{}", "[1]", '["-y",null]', '["a\\u0000b"]', '["-y"', "null", '[["-y"]]', "['-y']", ""])(
    "a list of arguments may not be %s",
    (text) => {
      expect(jsonStrings.parse(text)).toBeUndefined();
    },
  );
});

describe("the problem of a list of arguments", () => {
  it.each([
    ["-y s3cret", "it is not JSON (character 1: [ is expected)"],
    ["", "it is not JSON (end: [ is expected)"],
    ['["--token","s3cret",]', "it is not JSON (character 21: a value is expected)"],
    ['["--token" "s3cret"]', "it is not JSON (character 12: , or ] is expected)"],
    ['["--token","s3cret"', "it is not JSON (end: , or ] is expected)"],
    ['["--token",', "it is not JSON (end: a value is expected)"],
    ['["--token","s3cret', "it is not JSON (character 12: a malformed string begins)"],
    ['["s3\\cret"]', "it is not JSON (character 2: a malformed string begins)"],
    ['["s3\ncret"]', "it is not JSON (character 2: a malformed string begins)"],
    ["['s3cret']", "it is not JSON (character 2: a value or ] is expected)"],
    ['["a"] s3cret', "it is not JSON (character 7: the end is expected)"],
    ['"s3cret"', "it is a string, not an array"],
    ['{"s3cret":1}', "it is an object, not an array"],
    ["null", "it is null, not an array"],
    ['["a",1]', "element 2 is a number, not a string"],
    ['[["s3cret"]]', "element 1 is an array, not a string"],
    ["[null]", "element 1 is null, not a string"],
    ['["a","b","s3\\u0000cret"]', "element 3 contains NUL"],
  ])("the problem of %j has a place and a reason but none of the text", (text, reason) => {
    expect(jsonStrings.explain?.(text)).toBe(reason);
    expect(describeInvalid("ARGS", text === "" ? " " : text, { kind: jsonStrings, isSecret: false })).not.toContain("s3");
  });

  it("the problem of a long text is found without delay", () => {
    expect(jsonStrings.explain?.(`["${String.raw`\u0041x`.repeat(20_000)}" "`)).toBe(
      "it is not JSON (character 140005: , or ] is expected)",
    );
  });
});

describe("any text", () => {
  it("any text is allowed but NUL", () => {
    expect(["server", "", " a b\n", "a\0b"].map((text) => anyText.parse(text))).toEqual(["server", "", " a b\n", undefined]);
  });
});

describe("an endpoint path", () => {
  it.each(["/", "/mcp", "/a/b-c_d.e~f", "/%7Eme", "/mcp/", "/healthz/mcp"])("an endpoint path may be %s", (text) => {
    expect(endpointPath.parse(text)).toBe(text);
  });

  it.each(["", "mcp", "http://a/mcp", "/mcp?x=1", "/mcp#x", "/m cp", "/mcp\n"])("an endpoint path may not be %j", (text) => {
    expect(endpointPath.parse(text)).toBeUndefined();
  });

  const spellings = [
    "/status/",
    "/Status",
    "/%73tatus",
    "/%2e/status",
    "/./status",
    "/mcp/../status",
    "//status",
    "/status//",
    "/%2Fstatus",
  ];

  it.each(["/livez", "/readyz", "/healthz", "/status", ...spellings])("an endpoint path may not be %j, which is reserved", (text) => {
    expect(endpointPath.parse(text)).toBeUndefined();
  });

  it.each(["/status/mcp", "/statuses", "/mcp%zz", "/", "/sse"])("an endpoint path may be %j, which is not reserved", (text) => {
    expect(endpointPath.parse(text)).toBe(text);
  });
});

describe("a list of origins", () => {
  it.each([
    ["*", "*"],
    [" * ", "*"],
    ["https://app.example", ["https://app.example"]],
    ["HTTPS://App.Example:443, http://localhost:5173 ,http://[::1]", ["https://app.example", "http://localhost:5173", "http://[::1]"]],
    ["chrome-extension://ABCdefgh,vscode-webview://0d3f", ["chrome-extension://abcdefgh", "vscode-webview://0d3f"]],
    ["vscode-webview://0d3f-0x1,vscode-webview://123", ["vscode-webview://0d3f-0x1", "vscode-webview://123"]],
    ["tauri://localhost:80,https://app.example:80", ["tauri://localhost:80", "https://app.example:80"]],
    ["https://app.example:0443,http://app.example:80", ["https://app.example", "http://app.example"]],
    ["http://app.example:443,https://app.example.", ["http://app.example:443", "https://app.example."]],
    ["http://[0:0:0:0:0:0:0:1]:3000,https://xn--bcher-kva.example", ["http://[::1]:3000", "https://xn--bcher-kva.example"]],
  ])("a list of origins may be %s", (text, value) => {
    expect(origins.parse(text)).toEqual(value);
  });

  it.each([
    "",
    ",",
    "https://app.example,",
    "https://a.example,,https://b.example",
    "*,https://app.example",
    "null",
    "app.example",
    "https://app.example/",
    "https://*.example",
    "https://user@app.example",
    "https://app.example https://b.example",
    "https://app.example;https://b.example",
    "https://app.example:65536",
    "https://app.example:",
    "https://bücher.example",
    "https://",
    "https://:443",
    "//app.example",
    "https:app.example",
    "https:/app.example",
    "https://app.example/path",
    "https://app.example?x",
    "https://app.example#x",
    "http://localhost@evil.com",
    "http://localhost:80@evil.com",
    "http://localhost\\.evil.com",
    "https://1.2.3.4.5",
    "1http://app.example",
  ])("a list of origins may not be %j", (text) => {
    expect(origins.parse(text)).toBeUndefined();
  });
});

describe("a list of hosts", () => {
  it.each([
    ["mcp.example", ["mcp.example"]],
    ["Mcp.Example.:8080, 10.0.0.5 ,[2001:DB8::1]:80", ["mcp.example:8080", "10.0.0.5", "[2001:db8::1]:80"]],
    [" * ", "*"],
    ["*.Mcp.Example,*.mcp.example:8443", ["*.mcp.example", "*.mcp.example:8443"]],
    ["my_service,xn--bcher-kva.example", ["my_service", "xn--bcher-kva.example"]],
    ["127.1,[::FFFF:127.0.0.1],Mcp.Example.:80", ["127.0.0.1", "[::ffff:7f00:1]", "mcp.example:80"]],
  ])("a list of hosts may be %s", (text, value) => {
    expect(hosts.parse(text)).toEqual(value);
  });

  it.each([
    "",
    ",",
    "mcp.example,",
    "*,mcp.example",
    "*example",
    "*.",
    "mcp.*",
    "*.*.example",
    "http://mcp.example",
    "mcp.example/mcp",
    "::1",
    "mcp.example:",
    "a b",
    "bücher.example",
  ])("a list of hosts may not be %j", (text) => {
    expect(hosts.parse(text)).toBeUndefined();
  });
});

describe("a token", () => {
  it.each(["t", "s3cret-token", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"])("a token may be %s", (text) => {
    expect(bearerToken.parse(text)).toBe(text);
  });

  it.each(["", "two words", " t", "t\n", "t\t", "tök", "t\u007f", "t\u0000"])("a token may not be %j", (text) => {
    expect(bearerToken.parse(text)).toBeUndefined();
  });
});

describe("one of several words", () => {
  const kind = oneOf(["info", "debug"]);

  it("each word is accepted exactly as it is written", () => {
    expect(["info", "debug", "INFO", "inf", "", " info", "0", "length"].map((text) => kind.parse(text))).toEqual([
      "info",
      "debug",
      ...Array.from({ length: 6 }, () => undefined),
    ]);
    expect(kind.expected).toBe("one of info, debug");
  });
});
