import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  type ClientCapabilities,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { Sidecar } from "../support/sidecar.ts";

const TASK_SERVER = [process.execPath, fileURLToPath(new URL("../fixtures/task-server.ts", import.meta.url))];
const TTL_MS = 60_000;

interface TaskRun {
  readonly types: readonly string[];
  readonly progress: readonly number[];
  readonly text: string;
}

/** Only the first generation of the SDK has the tasks of 2025-11-25. */
class TaskClient extends Client implements AsyncDisposable {
  readonly #http: StreamableHTTPClientTransport;

  constructor(url: string, capabilities: ClientCapabilities) {
    // With a store for its own tasks, the client would look there for the server's tasks.
    const own = capabilities.tasks === undefined ? {} : { taskStore: new InMemoryTaskStore() };
    super({ name: "interop", version: "1.0.0" }, { capabilities, ...own });
    this.#http = new StreamableHTTPClientTransport(new URL(url));
  }

  async open(): Promise<void> {
    await this.connect(this.#http);
  }

  /** Runs a tool as a task, to its end. */
  async run(name: string, args: Record<string, unknown> = {}): Promise<TaskRun> {
    const types = new Set<string>();
    const progress: number[] = [];
    let text = "";
    const options = { onprogress: (event: { progress: number }) => void progress.push(event.progress), task: { ttl: TTL_MS } };
    const stream = this.experimental.tasks.callToolStream({ name, arguments: args }, CallToolResultSchema, options);
    for await (const message of stream) {
      types.add(message.type);
      if (message.type === "error") throw message.error;
      if (message.type === "result" && message.result.content[0]?.type === "text") ({ text } = message.result.content[0]);
    }
    return { types: [...types], progress, text };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const COUNTED: TaskRun = { types: ["taskCreated", "taskStatus", "result"], progress: [1, 2, 3], text: "counted" };

describe.concurrent("tasks of the v1 client", async () => {
  const counting = disposeAfterAll(await Sidecar.start({ command: TASK_SERVER }));
  const everything = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));

  it.each([
    ["shared", {}],
    ["private", { roots: {} }],
  ])("a task on a %s server shows progress to its end, after its first response", async (_lane, capabilities) => {
    await using client = new TaskClient(counting.url, capabilities);
    await client.open();
    expect(await client.run("count")).toEqual(COUNTED);
  });

  it("a task asks the user while it runs", async () => {
    await using client = new TaskClient(everything.url, { elicitation: { form: {} } });
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      expect(params.message).toContain('"python"');
      return { action: "accept", content: { interpretation: "snake" } };
    });
    await client.open();
    const { types, text } = await client.run("simulate-research-query", { topic: "python", ambiguous: true });
    expect(types).toEqual(["taskCreated", "taskStatus", "result"]);
    expect(text).toContain("# Research Report: python (snake)");
  });

  it("with ISOLATION=session, the client runs a task that the server requests", async () => {
    await using sidecar = await Sidecar.start({ command: EVERYTHING, flags: ["--isolation", "session"] });
    await using client = new TaskClient(sidecar.url, { sampling: {}, tasks: { requests: { sampling: { createMessage: {} } } } });
    client.setRequestHandler(CreateMessageRequestSchema, async (_request, { taskStore }) => {
      if (taskStore === undefined) throw new Error("the client has no store for tasks");
      const task = await taskStore.createTask({ ttl: TTL_MS });
      const content = { type: "text", text: "thought it over" };
      await taskStore.storeTaskResult(task.taskId, "completed", { role: "assistant", model: "thinker", content });
      return { task };
    });
    await client.open();
    const { content } = await client.callTool({ name: "trigger-sampling-request-async", arguments: { prompt: "think" } });
    expect(content).toEqual([{ type: "text", text: expect.stringMatching(/^\[COMPLETED\].*thought it over/s) as string }]);
  });
});
