/** The document's performance tests. It prints times, and checks none. */
import { SdkClient } from "../../../test/support/sdk-client.ts";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { Registry } from "../src/registry.ts";
import { SERVER_WITH_MORE_TOOLS } from "./tool-server.ts";

const ROUNDS = 500;
const BUILT_IN = new URL("../src/tools/built-in.ts", import.meta.url).href;

await using folder = await TempDir.create();
const env = { ONECLAW_FOLDER: folder.path };
const millis = async (work: () => Promise<unknown>): Promise<number> => {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
};
const print = (label: string, ms: number): void => console.log(`${label.padEnd(60)} ${ms.toFixed(1).padStart(8)} ms`);

print("registration of the built-in tools, with their modules", await millis(() => Registry.load([BUILT_IN])));
await using client = await SdkClient.direct([process.execPath, SERVER_WITH_MORE_TOOLS], env);
const call = (name: string, args = {}): Promise<unknown> => client.callTool({ name, arguments: args });
print("first call", await millis(() => call("get_current_time")));
const inSequence = (work: () => Promise<unknown>) => async (): Promise<void> => {
  for (let round = 0; round < ROUNDS; round += 1) await work();
};
const thread = await millis(inSequence(() => call("misbehave", { how: "get_thread" })));
const none = await millis(inSequence(() => call("missing")));
print("call of a tool that does nothing", thread / ROUNDS);
print("of which MCP: call of a tool that does not exist", none / ROUNDS);
const parallel = (): Promise<unknown> => Promise.all(Array.from({ length: 30 }, () => call("misbehave", { how: "get_thread" })));
await parallel();
print("30 of these calls at the same time", await millis(parallel));
const busy = Array.from({ length: 4 }, () => call("misbehave_briefly", { how: "spin" }));
print("list of tools while four threads are in endless loops", await millis(() => client.listTools()));
await Promise.all(busy);
