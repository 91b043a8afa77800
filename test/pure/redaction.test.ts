import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { shorten } from "../../src/json/text.ts";
import { CREDENTIAL_NAME, type Redact, Secrets } from "../../src/observe/redact.ts";
import { limitedRequestLog } from "../../src/observe/log.ts";
import { RecordedLog } from "../support/context.ts";

describe("the name of a secret", () => {
  it("names of secrets are told from others", () => {
    const secret =
      "OPENAI_API_KEY GITHUB_TOKEN client_secret DB_PASSWORD PGPASSWORD MYSQL_PASSWD AWS_CREDENTIALS BASIC_AUTH SSH_PRIVATE --api-key";
    expect(secret.split(" ").filter((name) => !CREDENTIAL_NAME.test(name))).toEqual([]);
    expect(["PATH", "HOME", "PWD", "LANG", "NODE_ENV", "PORT", ""].filter((name) => CREDENTIAL_NAME.test(name))).toEqual([]);
  });
});

function createRedactor(environment: Readonly<Record<string, string | undefined>>): Redact {
  return new Secrets(environment).redact;
}

describe("secrets", () => {
  it("a secret is masked wherever and as often as it occurs", () => {
    const redact = createRedactor({ API_KEY: "abc123xyz", HOME: "/home/user" });
    expect(redact("key=abc123xyz, in /home/user: xabc123xyzabc123xyz")).toBe("key=***, in /home/user: x******");
    expect(redact("again abc123xyz")).toBe("again ***");
  });

  it("a secret that contains another one is masked as a whole", () => {
    const redact = createRedactor({ USER_TOKEN: "tok-1234", ADMIN_TOKEN: "tok-1234-and-more" });
    expect(redact("tok-1234-and-more tok-1234")).toBe("*** ***");
  });

  it("each line of a secret of several lines is masked", () => {
    const redact = createRedactor({
      TLS_PRIVATE_KEY: "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n",
    });
    expect(redact("read MIIEvQIBADANBg")).toBe("read ***");
    expect(redact("kqhkiG9w0BAQEF")).toBe("***");
    expect(createRedactor({ API_KEY: "abc123xyz\n" })("key=abc123xyz")).toBe("key=***");
  });

  it("short, empty and absent values are not masked", () => {
    const redact = createRedactor({ A_TOKEN: "a", B_TOKEN: "", C_TOKEN: undefined, D_KEY: "1234567" });
    expect(redact("a 1234567 undefined")).toBe("a 1234567 undefined");
    expect(createRedactor({ D_KEY: "12345678" })("12345678")).toBe("***");
  });

  it("no secret passes, with any text around it", () => {
    const secret = fc
      .string({ minLength: 8, maxLength: 16 })
      .filter((text) => !text.includes("*") && !/[\n\r]/.test(text) && text.trim() === text);
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1, maxLength: 3 }), fc.string(), fc.string(), (secrets, before, after) => {
        const redact = createRedactor(Object.fromEntries(secrets.map((value, index) => [`SECRET_${index}`, value])));
        for (const value of secrets) expect(redact(`${before}${value}${after}`).includes(value)).toBe(false);
      }),
    );
  });

  it("a secret that is added later is masked too", () => {
    const secrets = new Secrets({ API_KEY: "abc123xyz" });
    secrets.add(["a-new-token", "short", "abc123xyz"]);
    expect(secrets.redact("abc123xyz a-new-token short")).toBe("*** *** short");
  });

  it.each(['quo"ted\\key', "with space & more", "schlüssel-€-😀", "tab\tin-it"])("the secret %j is masked in every spelling", (secret) => {
    const { redact } = new Secrets({ API_KEY: secret });
    const once = JSON.stringify(secret).slice(1, -1);
    const twice = JSON.stringify(once).slice(1, -1);
    const inAscii = once.replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
    for (const spelled of [secret, once, twice, inAscii, encodeURIComponent(secret)]) expect(redact(`<${spelled}>`)).toBe("<***>");
  });

  it("strings in JSON text are masked, and all else stays byte for byte", () => {
    const { redactJson } = new Secrets({ API_KEY: "abc123xyz" });
    expect(redactJson('{"a":["key \\u0061bc123xyz"]}')).toBe('{"a":["key ***"]}');
    expect(redactJson('{ "a": 1.0, "b": "\\u0061" }')).toBe('{ "a": 1.0, "b": "\\u0061" }');
  });

  it("names in JSON text are masked, and it stays valid", () => {
    const { redactJson } = new Secrets({ API_KEY: 'abc"123\\xyz' });
    const text = '{"abc\\"123\\\\xyz":{"\\u0061bc\\"123\\u005cxyz!":["abc\\"123\\\\xyz"]},"n":1e400}';
    expect(redactJson(text)).toBe('{"***":{"***!":["***"]},"n":1e400}');
  });

  it.each([
    ["{", '{"a":', "}"],
    ["[", "[", "]"],
  ])("JSON text of a million levels of %s is masked", (_kind, open, close) => {
    const { redactJson } = new Secrets({ API_KEY: "abc123xyz" });
    const nested = (value: string): string => open.repeat(1_000_000) + value + close.repeat(1_000_000);
    const masked = redactJson(nested('{"abc123xyz":"\\u0061bc123xyz"}'));
    // Compared as a whole, it would be shown as a whole.
    expect(masked === nested('{"***":"***"}')).toBe(true);
  });

  it("the beginning of a secret at the end of a shortened text is masked, in JSON too", () => {
    const secret = `0123456789"${"x".repeat(200)}`;
    const redact = createRedactor({ API_KEY: secret });
    const shown = `name ${secret}`;
    expect(redact(shorten(shown, 100))).toBe("name ***…");
    expect(redact(JSON.stringify({ tool: shorten(shown, 100), other: "kept…" }))).toBe('{"tool":"name ***…","other":"kept…"}');
    expect(redact(shorten(shown, 12))).toBe("name 0123456…");
  });
});

describe("a log of lines that clients can cause at any rate", () => {
  it("100 lines in ten seconds are logged, and the others are counted before the next one", () => {
    let nowMs = 0;
    const log = new RecordedLog();
    const limited = limitedRequestLog(log, () => nowMs);
    for (let index = 0; index < 250; index++) limited.info({ count: index }, "request given up");
    expect(log.lines).toHaveLength(100);
    nowMs = 10_000;
    limited.warn({ count: 250 }, "request given up");
    expect(log.lines.slice(100)).toEqual([
      { level: "warn", fields: { count: 150 }, message: "log lines suppressed: too many requests of clients caused them" },
      { level: "warn", fields: { count: 250 }, message: "request given up" },
    ]);
  });
});
