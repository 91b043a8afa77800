import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { HEADER_MISMATCH, INVALID_PARAMS, METHOD_NOT_FOUND, UNSUPPORTED_VERSION, failureOf } from "../support/error-reply.ts";
import { type Headers, type HttpReply, send } from "../support/http-client.ts";
import { META, type ModernCall } from "../support/modern-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { HttpBench } from "../support/http-bench.ts";

const TOKEN = "s3cret-Token.0123456789";
const NAME = "größe 名";

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

describe("headers that repeat the body", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();
  const control = await sidecar.client();

  /** Calls a tool that the fixture does not know: it returns the params. */
  async function call(name: string, headers: ModernCall["headers"] = {}): Promise<readonly unknown[]> {
    const reply = await client.callTool(name, {}, { headers });
    return reply.error === undefined
      ? [reply.status, (reply.result?.["params"] as Partial<{ name: string }> | undefined)?.name]
      : failureOf(reply);
  }

  it.each<[what: string, headers: Headers]>([
    ["another case of the names", { "MCP-METHOD": "tools/call", "mcp-name": "a b", "mcp-PROTOCOL-version": "2026-07-28" }],
    ["surrounding blanks", { "Mcp-Method": "tools/call\t ", "Mcp-Name": " \ta b " }],
    ["the base64 form", { "Mcp-Method": `=?base64?${base64("tools/call")}?=`, "Mcp-Name": `=?base64?${base64("a b")}?=` }],
    ["blanks around the base64 form", { "Mcp-Name": `  =?base64?${base64("a b")}?=\t` }],
  ])("%s are accepted", async (_what, headers) => {
    expect(await call("a b", headers)).toEqual([200, "a b"]);
  });

  it.each([NAME, " padded ", "=?base64?YQ==?=", "line\nbreak", "tab\tin", ""])("the name %j is accepted in base64 form", async (name) => {
    expect(await call(name, { "Mcp-Name": `=?base64?${base64(name)}?=` })).toEqual([200, name]);
  });

  it("a name is accepted as plain text with a tab within it", async () => {
    expect(await call("tab\tin", { "Mcp-Name": "tab\tin" })).toEqual([200, "tab\tin"]);
  });

  it.each<[what: string, headers: ModernCall["headers"]]>([
    ["no Mcp-Method", { "Mcp-Method": undefined }],
    ["an empty Mcp-Method", { "Mcp-Method": "" }],
    ["the Mcp-Method of another request", { "Mcp-Method": "tools/list" }],
    ["an Mcp-Method in another case", { "Mcp-Method": "Tools/Call" }],
    ["no Mcp-Name", { "Mcp-Name": undefined }],
    ["an Mcp-Name in another case", { "Mcp-Name": "A B" }],
    ["two values of Mcp-Name", { "Mcp-Name": "a b, a b" }],
    ["a quoted Mcp-Name", { "Mcp-Name": '"a b"' }],
    ["a percent-encoded Mcp-Name", { "Mcp-Name": "a%20b" }],
    ["base64 without padding", { "Mcp-Name": "=?base64?YSBi?=".replace("YSBi", "YSBiYw") }],
    ["base64 with blanks", { "Mcp-Name": "=?base64?YS Bi?=" }],
    ["the URL alphabet of base64", { "Mcp-Name": "=?base64?_-__?=" }],
    ["base64 that is not UTF-8", { "Mcp-Name": "=?base64?/w==?=" }],
    ["an unfinished base64 form", { "Mcp-Name": "=?base64?YSBi" }],
    ["a byte over 127", { "Mcp-Name": "a b\u00E9" }],
  ])("%s is rejected", async (_what, headers) => {
    expect(await call("a b", headers)).toEqual(HEADER_MISMATCH);
  });

  it("base64 with unused bits that are set is rejected", async () => {
    expect(await call("a", { "Mcp-Name": "=?base64?YQ==?=" })).toEqual([200, "a"]);
    expect(await call("a", { "Mcp-Name": "=?base64?YR==?=" })).toEqual(HEADER_MISMATCH);
  });

  it.each(["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"])("a repeated %s is rejected, even with equal values", async (name) => {
    const { headers, body } = client.compose("tools/call", { name: "echo", arguments: {} });
    const fields = Object.entries({ ...headers, Host: "localhost", "Content-Length": String(body.length) });
    const repeated = `${name}: ${headers[name]}`;
    using connection = await RawConnection.open(sidecar.origin);
    await connection.write(["POST /mcp HTTP/1.1", ...fields.map((each) => each.join(": ")), repeated, "", body].join("\r\n"));
    expect(failureOf(await connection.reply())).toEqual(HEADER_MISMATCH);
  });

  it.each([
    ["prompts/get", { name: "p" }, "p"],
    ["resources/read", { uri: "file:///é" }, `=?base64?${base64("file:///é")}?=`],
  ])("%s needs its own Mcp-Name", async (method, params, header) => {
    const statuses: number[] = [];
    for (const name of [header, "other", undefined]) {
      statuses.push((await client.request(method, params, { headers: { "Mcp-Name": name } })).status);
    }
    expect(statuses).toEqual([200, 400, 400]);
  });

  it("a request without a name needs no Mcp-Name, and ignores one", async () => {
    const statuses = [undefined, "any"].map(
      async (name) => (await client.request("tools/list", {}, { headers: { "Mcp-Name": name } })).status,
    );
    expect(await Promise.all(statuses)).toEqual([200, 200]);
  });

  it.each([
    ["requestState", '"requestState":"a","requestState":"b"'],
    ["requestState", '"requestState":"a","RequestState":"b"'],
    ["inputResponses", '"inputResponses":{},"inputresponses":{}'],
  ])("a second %s is rejected, because the server could read it instead: %s", async (member, members) => {
    const { headers, body } = client.compose("tools/call", { name: "echo", arguments: { text: "never" } });
    const reply = await send(sidecar.url, { headers, body: body.replace('"arguments"', `${members},"arguments"`) });
    expect([failureOf(reply), reply.body]).toEqual([
      INVALID_PARAMS,
      expect.stringMatching(new RegExp(`"${member}.* (?:occurs twice|differs only in case)`, "i")),
    ]);
  });

  it("a mismatch names the header, and the request is not sent", async () => {
    const reply = await client.request("tools/call", { name: "x-secret" }, { id: "m", headers: { "Mcp-Name": "x-other" } });
    expect(reply.error).toMatchObject({ message: "The header Mcp-Name differs from the body. The request was not sent." });
    expect([reply.id, reply.error?.data]).toMatchObject(["m", { sent: false, retrySafe: true }]);
    expect(await control.toolText("lines")).not.toContain("x-secret");
  });
});

describe("the envelope of a request", async () => {
  const sidecar = disposeAfterAll(await HttpBench.start());
  const client = sidecar.modernClient();

  it("clientInfo may be missing", async () => {
    expect(await client.toolText("echo", { text: "hi" }, { meta: { [META.clientInfo]: undefined } })).toBe("hi");
  });

  it.each<[what: string, meta: Exclude<ModernCall["meta"], undefined>, key: string]>([
    ["no _meta", null, "_meta"],
    ["no protocolVersion", { [META.protocolVersion]: undefined }, META.protocolVersion],
    ["a protocolVersion that is null", { [META.protocolVersion]: null }, META.protocolVersion],
    ["no clientCapabilities", { [META.clientCapabilities]: undefined }, META.clientCapabilities],
    ["clientCapabilities in an array", { [META.clientCapabilities]: [] }, META.clientCapabilities],
    ["clientCapabilities that are null", { [META.clientCapabilities]: null }, META.clientCapabilities],
    ["an unknown log level", { [META.logLevel]: "loud" }, META.logLevel],
    ["a log level that is a number", { [META.logLevel]: 3 }, META.logLevel],
  ])("%s is rejected with the key's name", async (_what, meta, key) => {
    const reply = await client.callTool("echo", {}, { id: "e", meta });
    expect([...failureOf(reply), reply.id]).toEqual([...INVALID_PARAMS, "e"]);
    expect(reply.error?.message).toContain(`"${key}"`);
  });

  it("a version that is not served gets the served ones and its own", async () => {
    const reply = await client.callTool("echo", {}, { meta: { [META.protocolVersion]: "2027-01-01" } });
    expect(failureOf(reply)).toEqual(UNSUPPORTED_VERSION);
    expect(reply.error?.data).toMatchObject({ supported: ["2026-07-28"], requested: "2027-01-01" });
    expect((await client.request("server/discover")).result?.["supportedVersions"]).toEqual(["2026-07-28"]);
  });
});

describe("the order of checks", async () => {
  const sidecar = disposeAfterAll(
    await HttpBench.start({ flags: ["--max-body-bytes", "2048"], env: { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN } }),
  );
  const authorized = { Authorization: `Bearer ${TOKEN}` };
  const client = sidecar.modernClient({ headers: authorized });

  /** The faults of one request, in the order in which they are reported: each step mends one. */
  const steps: readonly [mends: string, failure: readonly unknown[], mend: (faulty: Faulty) => Faulty][] = [
    [
      "the Origin",
      [403, -32603, "ORIGIN_NOT_ALLOWED"],
      (faulty) => ({ ...faulty, headers: { ...faulty.headers, Origin: "http://localhost" } }),
    ],
    ["the token", [401, -32603, "UNAUTHORIZED"], (faulty) => ({ ...faulty, headers: { ...faulty.headers, ...authorized } })],
    [
      "the media type",
      [415, -32603, "UNSUPPORTED_MEDIA_TYPE"],
      (faulty) => ({ ...faulty, headers: { ...faulty.headers, "Content-Type": "application/json" } }),
    ],
    ["the size", [413, -32603, "BODY_TOO_LARGE"], (faulty) => ({ ...faulty, padding: 0 })],
    ["the JSON", [400, -32700, "PARSE_ERROR"], (faulty) => ({ ...faulty, prefix: "" })],
    ["the envelope", INVALID_PARAMS, (faulty) => ({ ...faulty, meta: { ...faulty.meta, [META.clientCapabilities]: {} } })],
    [
      "the version header",
      HEADER_MISMATCH,
      (faulty) => ({ ...faulty, headers: { ...faulty.headers, "MCP-Protocol-Version": "2027-01-01" } }),
    ],
    [
      "the version",
      UNSUPPORTED_VERSION,
      ({ meta, headers, ...faulty }) => ({
        ...faulty,
        headers: { ...headers, "MCP-Protocol-Version": "2026-07-28" },
        meta: { ...meta, [META.protocolVersion]: "2026-07-28" },
      }),
    ],
    ["Mcp-Method", HEADER_MISMATCH, (faulty) => ({ ...faulty, headers: { ...faulty.headers, "Mcp-Method": "initialize" } })],
    ["the method", METHOD_NOT_FOUND, (faulty) => faulty],
  ];

  interface Faulty {
    readonly headers: Headers;
    readonly meta: object;
    readonly prefix: string;
    readonly padding: number;
  }

  function sendFaulty({ headers, meta, prefix, padding }: Faulty): Promise<HttpReply> {
    const params = { name: "echo", _meta: meta, padding: "x".repeat(padding) };
    return send(sidecar.url, { headers, body: prefix + JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }) });
  }

  it("a request with every fault gets the errors in the specified order", async () => {
    let faulty: Faulty = {
      headers: {
        Origin: "https://evil.com",
        "Content-Type": "text/plain",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
      },
      meta: { [META.protocolVersion]: "2027-01-01" },
      prefix: "{",
      padding: 4096,
    };
    const found: unknown[] = [];
    for (const [mends, , mend] of steps) {
      found.push([mends, failureOf(await sendFaulty(faulty))]);
      faulty = mend(faulty);
    }
    expect(found).toEqual(steps.map(([mends, failure]) => [mends, failure]));
  });

  it("Mcp-Name is checked after Mcp-Method, and before the arguments' headers", async () => {
    const call = (headers: NonNullable<ModernCall["headers"]>): ReturnType<typeof client.callTool> =>
      client.callTool("with_headers", { region: "eu" }, { headers });
    const messages = [
      (await call({ "Mcp-Method": "x", "Mcp-Name": "x" })).error?.message,
      (await call({ "Mcp-Name": "x" })).error?.message,
      (await call({})).error?.message,
    ];
    expect(messages.map((message) => /mcp-[a-z-]+/i.exec(message ?? "")?.[0].toLowerCase())).toEqual([
      "mcp-method",
      "mcp-name",
      "mcp-param-region",
    ]);
  });
});
