import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { say } from "../support/held-call.ts";
import { messageTexts } from "../support/json-rpc.ts";
import { HttpBench } from "../support/http-bench.ts";
import { eventIdAt } from "../support/status.ts";

/** Texts that a parser and writer of JSON or of event streams would change. */
const JSON_TEXTS = `[${[
  "9007199254740993,1.0,1e400,-0,-1.50E+2",
  String.raw`"a\nb\r\nc\rd\u000ae","\n\ndata: x\nid: 1\nevent: end\n: comment"`,
  `"\u2028\u2029\u0085"," \uFEFF x"`,
  String.raw`"😀 \ud83d\ude00 \ud800","a\u0000b"`,
  `{"b":1,"10":2,"2":3,"a":4,"a":5,"":6,"__proto__":{"x":1}}`,
  `{ "a" :\t[ 1 ,2,  3 ] }`,
].join()}]`;

// This server splits its input at newlines only.
const sidecar = disposeAfterAll(await HttpBench.start({ mode: "newline-only", flags: ["--max-body-bytes", "40000000"] }));
const client = await sidecar.client();

async function answered(lines: readonly string[]): Promise<string[]> {
  const params = { name: "raw_line", arguments: { line: lines.join("\n") }, _meta: { progressToken: "t" } };
  return messageTexts(await client.post({ jsonrpc: "2.0", id: "my id", method: "tools/call", params }));
}

it("the client gets each text as the server sent it, in progress and response", async () => {
  const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"x":${JSON_TEXTS},"progressToken":$ID,"progress":1}}`;
  const response = `{"jsonrpc":"2.0","result":{"x":${JSON_TEXTS}} ,"id": $ID}`;
  expect(await answered([progress, response])).toEqual([progress.replace("$ID", `"t"`), response.replace("$ID", `"my id"`)]);
});

it("a GET stream forwards each text as the server sent it", async () => {
  const own = await sidecar.client();
  using stream = await own.openStream();
  const line = `{ "jsonrpc":"2.0" ,"method":"notifications/tools/list_changed","params":{"x":${JSON_TEXTS}}}`;
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
