import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { say } from "../support/held-call.ts";
import { messageTexts } from "../support/json-rpc.ts";
import { HttpBench } from "../support/http-bench.ts";
import { eventIdAt } from "../support/status.ts";

/** Texts that a parser and writer of JSON or of event streams would change. */
const JSON_TEXTS = [
  ["an integer over 2^53", "9007199254740993"],
  ["numbers in odd spellings", "[1.0,1e400,-0,-1.50E+2]"],
  ["escaped line ends", String.raw`"a\nb\r\nc\rd\u000ae"`],
  ["text that looks like fields of an event", String.raw`"\n\ndata: x\nid: 1\nevent: end\n: comment"`],
  ["separators that are line ends elsewhere", `"\u2028\u2029\u0085"`],
  ["an emoji, raw and escaped, and a lone surrogate", String.raw`"😀 \ud83d\ude00 \ud800"`],
  ["a byte order mark and a leading space", `" \uFEFF x"`],
  ["an escaped NUL", String.raw`"a\u0000b"`],
  ["keys out of order, repeated, and empty", `{"b":1,"10":2,"2":3,"a":4,"a":5,"":6}`],
  ["keys with a meaning in JavaScript", `{"__proto__":{"x":1},"constructor":2}`],
  ["white space between tokens", `{ "a" :\t[ 1 ,2,  3 ] }`],
] as const;

describe("an event stream", async () => {
  // This server splits its input at newlines only.
  const sidecar = disposeAfterAll(await HttpBench.start({ mode: "newline-only", flags: ["--max-body-bytes", "40000000"] }));
  const client = await sidecar.client();

  /** Returns the messages that the client reads if the server answers its call with these lines. */
  async function answered(lines: readonly string[]): Promise<string[]> {
    const params = { name: "raw_line", arguments: { line: lines.join("\n") }, _meta: { progressToken: "t" } };
    return messageTexts(await client.post({ jsonrpc: "2.0", id: "my id", method: "tools/call", params }));
  }

  it.each(JSON_TEXTS)("the client gets %s as the server sent it, in progress and response", async (_what, json) => {
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":${json},"progressToken":$ID,"progress":1}}`;
    const response = `{"jsonrpc":"2.0","result":{"x":${json}} ,"id": $ID}`;
    expect(await answered([progress, response])).toEqual([progress.replace("$ID", `"t"`), response.replace("$ID", `"my id"`)]);
  });

  it.each(JSON_TEXTS)("a GET stream forwards %s as the server sent it", async (_what, json) => {
    const own = await sidecar.client();
    using stream = await own.openStream();
    const line = `{ "jsonrpc":"2.0" ,"method":"notifications/tools/list_changed","params":{"x":${json}}}`;
    await say(client, line);
    expect(await stream.nextText()).toBe(line);
    using again = await own.openStream({ lastEventId: await eventIdAt(sidecar, "s1-0") });
    expect(await again.nextText()).toBe(line);
  });

  // An event stream takes a carriage return for the end of a line.
  it("a carriage return between tokens becomes a space, and nothing else changes", async () => {
    const progress = `{"jsonrpc":"2.0",\r"method":"notifications/progress",\r\r"params":{"progressToken":$ID,"message":"a\\rb","progress":1}}\r`;
    const response = `{"jsonrpc":"2.0","id":$ID,\r"result":{"text":"\\r"}}\r`;
    const [first, last] = await answered([progress, response]);
    expect(first?.trimEnd()).toBe(progress.trimEnd().replaceAll("\r", " ").replace("$ID", `"t"`));
    expect(last?.trimEnd()).toBe(response.trimEnd().replaceAll("\r", " ").replace("$ID", `"my id"`));
  });

  it("an error is forwarded with all its members", async () => {
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1}}`;
    const error = String.raw`{"jsonrpc":"2.0","id":$ID,"error":{"message":"no\u0020such","code":-32602,"data":{"big":9007199254740993},"x":1.0}}`;
    expect((await answered([progress, error])).at(-1)).toBe(error.replace("$ID", `"my id"`));
  });

  it.each([
    ["ASCII", "x", 1_000_000],
    ["characters of three bytes", "€", 1_000_000],
    ["characters of four bytes", "😀", 500_000],
  ])("megabytes of %s are forwarded unchanged", async (_what, character, length) => {
    const text = character.repeat(length);
    const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1,"message":"${text}"}}`;
    const response = `{"jsonrpc":"2.0","id":$ID,"result":{"text":"${text}"}}`;
    const messages = await answered([progress, response]);
    expect(messages.map((message) => message.length)).toEqual([progress.length, response.length + 4]);
    expect(messages[0] === progress.replace("$ID", `"t"`)).toBe(true);
    expect(messages[1] === response.replace("$ID", `"my id"`)).toBe(true);
  });

  it("a message above the limit for slow readers is forwarded, and so are later ones", async () => {
    await using roomy = await HttpBench.start({ flags: ["--max-body-bytes", "100000000"] });
    const own = await roomy.client();
    const text = "€".repeat(10_000_000);
    const progress = (step: number, message: string): string =>
      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":${step},"message":"${message}"}}`;
    const line = [progress(1, text), progress(2, ""), progress(3, ""), `{"jsonrpc":"2.0","id":$ID,"result":{}}`].join("\n");
    using stream = await own.begin("raw_line", { line }, 7, { progressToken: "t" });
    const messages = await stream.rest();
    expect(messages.map((message) => message.params?.["progress"])).toEqual([1, 2, 3, undefined]);
    expect(messages[0]?.params?.["message"] === text).toBe(true);
  });

  it("large and small messages of concurrent calls each reach their own call", async () => {
    const replies = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const text = String(index % 10).repeat(index % 2 === 0 ? 500_000 : 5);
        const line = [
          `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":${index},"message":"${text}"}}`,
          `{"jsonrpc":"2.0","id":$ID,"result":{"text":"${text}"}}`,
        ].join("\n");
        using stream = await client.begin("raw_line", { line }, 1, { progressToken: index });
        return { text, messages: await stream.rest() };
      }),
    );
    for (const { text, messages } of replies) {
      const [progress, response] = messages;
      expect([messages.length, progress?.params?.["message"] === text, response?.result?.["text"] === text]).toEqual([2, true, true]);
    }
  });
});
