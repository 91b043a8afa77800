import * as fc from "fast-check";

/** JSON-RPC that clients should not send, as text, which need not be JSON. */

const DEEP = 50_000;
/** The deepest nesting that a server with recursive JSON code still accepts. */
const BEARABLE = 500;

const WEIRD_VALUES = [
  "null",
  "true",
  "0",
  "-0",
  "1.5",
  "1e400",
  "9007199254740993",
  "9".repeat(400),
  '""',
  '"x"',
  '"__proto__"',
  '"constructor"',
  '"\\ud800"',
  '"\\u0000"',
  "[]",
  "{}",
  '{"__proto__":{"polluted":true}}',
  '{"toString":null,"valueOf":1}',
  `${"[".repeat(BEARABLE)}${"]".repeat(BEARABLE)}`,
  `${'{"a":'.repeat(BEARABLE)}1${"}".repeat(BEARABLE)}`,
  `"${"x".repeat(5000)}"`,
];

const METHODS = [
  "ping",
  "tools/list",
  "tools/call",
  "resources/subscribe",
  "resources/unsubscribe",
  "logging/setLevel",
  "completion/complete",
  "tasks/get",
  "initialize",
  "notifications/initialized",
  "notifications/cancelled",
  "notifications/progress",
  "notifications/roots/list_changed",
  "x-vendor/anything",
  "__proto__",
  "",
];

const PARAMS = [
  "{}",
  '{"name":"echo","arguments":{"text":"t"}}',
  '{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"t"}}',
  '{"name":"progress","_meta":{"progressToken":1.5}}',
  '{"name":"echo","_meta":{"progressToken":{}}}',
  '{"name":"__proto__","arguments":null}',
  '{"name":{"toString":null}}',
  '{"_meta":null}',
  '{"_meta":{"progressToken":1,"progressToken":2}}',
  '{"uri":"file:///a"}',
  '{"uri":{}}',
  '{"level":"debug"}',
  '{"level":[]}',
  '{"requestId":1,"reason":"r"}',
  '{"requestId":{}}',
  '{"requestId":null}',
  '{"progressToken":1,"progress":1}',
  '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"f","version":"1"}}',
  '{"protocolVersion":7,"capabilities":[],"clientInfo":null}',
  '{"protocolVersion":"2025-03-26","capabilities":{"roots":{},"sampling":{}}}',
];

const weird = fc.constantFrom(...WEIRD_VALUES);

/** Usually the expected member, sometimes another value, sometimes none. */
function member(name: string, usual: readonly string[], isUsuallyThere: boolean): fc.Arbitrary<string | undefined> {
  return fc
    .oneof(
      { weight: isUsuallyThere ? 10 : 2, arbitrary: fc.constantFrom(...usual) },
      { weight: 2, arbitrary: weird },
      { weight: isUsuallyThere ? 1 : 10, arbitrary: fc.constant(undefined) },
    )
    .map((value) => (value === undefined ? undefined : `${JSON.stringify(name)}:${value}`));
}

const message = fc
  .tuple(
    member("jsonrpc", ['"2.0"'], true),
    member("id", ["1", "2", '"a"'], true),
    member(
      "method",
      METHODS.map((name) => JSON.stringify(name)),
      true,
    ),
    member("params", PARAMS, true),
    member("result", ["{}"], false),
    member("error", ['{"code":-1,"message":"m"}'], false),
    member("__proto__", ['{"id":9}'], false),
    member("id", ["3"], false),
  )
  .map((members) => `{${members.filter((each) => each !== undefined).join(",")}}`);

const batch = fc
  .array(fc.oneof({ weight: 6, arbitrary: message }, { weight: 1, arbitrary: weird }), { maxLength: 6 })
  .map((messages) => `[${messages.join(",")}]`);

const noJson = fc.constantFrom(
  "",
  " ",
  "{",
  "}",
  "]",
  "nul",
  "\u0000",
  '{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}',
  '{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"jsonrpc":"2.0","id":2,"method":"ping"}\n',
  "[".repeat(DEEP),
  `${"[".repeat(DEEP)}${"]".repeat(DEEP)}`,
  `${'{"a":'.repeat(DEEP)}1${"}".repeat(DEEP)}`,
  `[${"{},".repeat(150)}{}]`,
);

/** One character for each byte: UTF-8 that is truncated, overlong or otherwise invalid. */
const brokenUtf8 = fc
  .tuple(message, fc.constantFrom("\xff", "\xc3", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf5\x80\x80\x80"))
  .map(([text, bytes]) => text.replace('"', `"${bytes}`));

/** A body, one character for each byte. */
export const bodyBytes: fc.Arbitrary<string> = fc.oneof(
  { weight: 8, arbitrary: message },
  { weight: 3, arbitrary: batch },
  { weight: 2, arbitrary: noJson },
  { weight: 2, arbitrary: brokenUtf8 },
);
