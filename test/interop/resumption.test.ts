import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { CuttingProxy, type ProxiedRequest } from "../support/cutting-proxy.ts";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { CLIENTS, InteropClient, SDKS } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const sidecar = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

function isResumption({ httpMethod, lastEventId }: ProxiedRequest): boolean {
  return httpMethod === "GET" && lastEventId?.startsWith("r") === true;
}

const CUTS: [title: string, isHalfOpen: boolean][] = [
  ["for both sides", false],
  ["unseen by the sidecar", true],
];

let lastName = 0;

/** A call of a tool that acts as the test tells it to. */
class WaitingCall {
  readonly name = `call ${++lastName}`;
  readonly seen: number[] = [];
  readonly answer: Promise<string>;
  readonly #client: InteropClient;

  constructor(client: InteropClient) {
    this.#client = client;
    const onprogress = ({ progress }: { progress: number }): void => void this.seen.push(progress);
    this.answer = client.toolText("test_wait", { name: this.name }, { onprogress });
  }

  async tell(what: { readonly progress?: number; readonly answer?: string }): Promise<void> {
    await this.#client.toolText("test_tell", { name: this.name, ...what });
  }
}

describe.concurrent.each(CLIENTS)("the $sdk client of a $lane server", ({ sdk, lane }) => {
  it.each(CUTS)("a call gets its response after its connection is cut in the middle, %s", async (_title, isHalfOpen) => {
    await using proxy = await CuttingProxy.start(sidecar.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    const call = new WaitingCall(client);
    for (const progress of [1, 2]) await call.tell({ progress });
    const cut = proxy.cutBehind('"progress":3', { isHalfOpen });
    await call.tell({ progress: 3 });
    await cut;
    await call.tell({ progress: 4 });
    await proxy.waitForRequests(1, isResumption);
    await call.tell({ progress: 5 });
    await call.tell({ answer: "arrived" });
    expect(await call.answer).toBe("arrived");
    expect(call.seen).toEqual([1, 2, 3, 4, 5]);
    expect(proxy.requests.filter(isResumption)).toHaveLength(1);
    expect(proxy.requests.filter(({ method }) => method === "tools/call")).toHaveLength(7);
  });
});

describe("a call that is cut while it is silent", async () => {
  const silent = disposeAfterAll(
    await Sidecar.start({ command: CONFORMANCE_SERVER, flags: ["--stream-after-ms", "50", "--keep-alive-ms", "20"] }),
  );

  it.concurrent.each(CLIENTS)("the call gets its response after the client has resumed: $sdk, $lane", async ({ sdk, lane }) => {
    await using proxy = await CuttingProxy.start(silent.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, { lane });
    // An event with an id and without data is all that the client gets.
    const cut = proxy.cutBehind("data: \n\n", { method: "tools/call" });
    const call = new WaitingCall(client);
    await cut;
    await proxy.waitForRequests(1, isResumption);
    await call.tell({ progress: 1, answer: "after all" });
    expect(await call.answer).toBe("after all");
    expect(call.seen).toEqual([1]);
  });
});

describe.concurrent.each(SDKS)("the %s client", (sdk) => {
  it("the client gets a request once if the first delivery was cut", async () => {
    await using proxy = await CuttingProxy.start(sidecar.origin);
    await using client = await InteropClient.connect(sdk, proxy.url, {
      answer: () => ({ role: "assistant", model: "parrot", content: { type: "text", text: "yes" } }),
    });
    const cut = proxy.cutBehind('"sampling/create');
    const answered = client.toolText("test_sampling", { prompt: "are you there?" });
    await cut;
    expect(await answered).toBe("The model said: yes");
    expect(client.asked).toHaveLength(1);
  });
});
