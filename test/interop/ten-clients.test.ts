import { expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../support/conformance.ts";
import { CuttingProxy } from "../support/cutting-proxy.ts";
import { OwnedResources } from "../support/owned-resources.ts";
import { groupEnd } from "../support/process-end.ts";
import { type Answer, InteropClient, type Sdk } from "../support/sdk-clients.ts";
import { Sidecar } from "../support/sidecar.ts";

const CALLS = 50;
const STEPS = 3;
/** For a client that accepts server requests, one in this many calls sends one. */
const ASKING = 5;
/** Connections of each client that are cut. */
const CUTS = 6;

interface Participant {
  readonly name: string;
  readonly sdk: Sdk;
  readonly lane: "private" | "shared";
}

const PARTICIPANTS = Array.from({ length: 10 }, (_, index): Participant => {
  const sdk = index < 5 ? "v1" : "v2";
  const lane = index % 2 === 0 ? "private" : "shared";
  return { name: `${sdk} ${lane} ${index}`, sdk, lane };
});

function sign(name: string): Answer {
  return ({ params }) => {
    const [{ content } = {}] = params["messages"] as { content: { text: string } }[];
    return { role: "assistant", model: name, content: { type: "text", text: `${name} read ${content?.text}` } };
  };
}

interface Answered {
  readonly text: string;
  readonly seen: number[];
}

async function callSteps(client: InteropClient, text: string): Promise<Answered> {
  const seen: number[] = [];
  const onprogress = ({ progress }: { progress: number }): void => void seen.push(progress);
  return { text: await client.toolText("test_steps", { steps: STEPS, text }, { onprogress }), seen };
}

/** Makes all calls of one client at once. Each SDK counts its request ids and its progress tokens from 0. */
async function callAll(client: InteropClient, { name, lane }: Participant): Promise<{ steps: Answered[]; said: string[] }> {
  const steps: Promise<Answered>[] = [];
  const said: Promise<string>[] = [];
  for (let index = 0; index < CALLS; index++) {
    steps.push(callSteps(client, `${name} call ${index}`));
    if (lane === "private" && index % ASKING === 0) said.push(client.toolText("test_sampling", { prompt: `${name} prompt ${index}` }));
  }
  return { steps: await Promise.all(steps), said: await Promise.all(said) };
}

function expectedOf({ name, lane }: Participant): { steps: Answered[]; said: string[] } {
  const indexes = Array.from({ length: CALLS }, (_, index) => index);
  const asking = lane === "private" ? indexes.filter((index) => index % ASKING === 0) : [];
  return {
    steps: indexes.map((index) => ({ text: `${name} call ${index}`, seen: Array.from({ length: STEPS }, (_, step) => step + 1) })),
    said: asking.map((index) => `The model said: ${name} read ${name} prompt ${index}`),
  };
}

/** Returns the process ids of the six private servers. The log may be read later than the responses. */
function privatePids(sidecar: Sidecar): Promise<number[]> {
  return sidecar.waitFor(() => {
    const started = sidecar.logLines.filter(({ msg, lane }) => msg === "mcp server started" && lane !== undefined);
    return started.length === 6 ? started.map(({ childPid }) => Number(childPid)) : undefined;
  }, "six private servers");
}

it("each client gets its own responses, progress and requests although connections are cut, and no process remains", async () => {
  await using sidecar = await Sidecar.start({ command: CONFORMANCE_SERVER });
  await using stack = new OwnedResources();
  const cuts: Promise<void>[] = [];
  // From its first question on, each session gets a server of its own.
  const first = stack.use(await InteropClient.connect("v2", sidecar.url, { answer: sign("first") }));
  expect(await first.toolText("test_sampling", { prompt: "alone" })).toBe("The model said: first read alone");
  await first[Symbol.asyncDispose]();
  const clients: InteropClient[] = [];
  for (const { name, sdk, lane } of PARTICIPANTS) {
    const proxy = stack.use(await CuttingProxy.start(sidecar.origin));
    for (let count = 0; count < CUTS; count++) cuts.push(proxy.cutBehind('"progress":2', { isHalfOpen: count % 2 === 0 }));
    clients.push(stack.use(await InteropClient.connect(sdk, proxy.url, { lane, answer: sign(name) })));
  }
  const answers = clients.map((client, index) => callAll(client, PARTICIPANTS[index] as Participant));
  expect(await Promise.all(answers)).toEqual(PARTICIPANTS.map(expectedOf));
  await Promise.all(cuts);
  for (const [index, { asked, heard }] of clients.entries()) {
    const { name = "", lane } = PARTICIPANTS[index] ?? {};
    expect(asked).toHaveLength(lane === "private" ? CALLS / ASKING : 0);
    for (const { params } of asked) expect(JSON.stringify(params)).toContain(`${name} prompt`);
    expect(heard).toEqual([]);
  }
  const pids = await privatePids(sidecar);
  await Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));
  await Promise.all(pids.map(groupEnd));
});
