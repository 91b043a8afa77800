import { expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { answerOf } from "../support/held-call.ts";
import { messageTexts } from "../support/json-rpc.ts";
import { HttpBench } from "../support/http-bench.ts";

function progressLine(token: string, rest = `"progress":1`): string {
  return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},${rest}}}`;
}

const sidecar = disposeAfterAll(await HttpBench.start({ flags: ["--log-level", "debug"] }));
const client = await sidecar.client();

it.each([`"a token"`, `"7"`, `7`, `0`, `-1`, `1.50e1`, `9007199254740993`, `""`, String.raw`"\u00e9\/\ud83d\ude00"`, `"r1-1"`])(
  "progress carries the token %s as its client spelled it",
  async (token) => {
    const body = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":${token}},"name":"progress","arguments":{"steps":2}}}`;
    const messages = messageTexts(await client.post(body));
    expect(messages.slice(0, 2)).toEqual([progressLine(token), progressLine(token, `"progress":2`)]);
    expect(JSON.parse(messages[2] ?? "")).toEqual(answerOf());
  },
);

it("progress reaches the client otherwise unchanged", async () => {
  const line = `{ "params" : {"total":1.0,"progressToken": $ID ,"progress":9007199254740993,"message":"caf\\u00e9 $","x":{"progressToken":1}},"method":"notifications/progress","jsonrpc":"2.0"}`;
  const params = {
    name: "raw_line",
    arguments: { line: `${line}\n{"jsonrpc":"2.0","id":$ID,"result":{}}` },
    _meta: { progressToken: "t" },
  };
  const messages = messageTexts(await client.post({ jsonrpc: "2.0", id: 7, method: "tools/call", params }));
  expect(messages).toEqual([line.replace("$ID", `"t"`), `{"jsonrpc":"2.0","id":7,"result":{}}`]);
});
