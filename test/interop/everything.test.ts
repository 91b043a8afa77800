import { McpError } from "@modelcontextprotocol/sdk/types.js";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { disposeAfterAll } from "../support/dispose-after-all.ts";
import { EVERYTHING } from "../support/real-servers.ts";
import { SdkClient } from "../support/sdk-client.ts";
import { Sidecar } from "../support/sidecar.ts";

describe("the everything server behind the sidecar", async () => {
  const sidecar = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));
  const client = disposeAfterAll(await SdkClient.connect(sidecar.url));

  it("a client calls the server's tools", async () => {
    expect(await client.callTool({ name: "echo", arguments: { message: "hello" } })).toEqual({
      content: [{ type: "text", text: "Echo: hello" }],
    });
    expect(await client.callTool({ name: "get-sum", arguments: { a: 2, b: 40 } })).toEqual({
      content: [{ type: "text", text: "The sum of 2 and 40 is 42." }],
    });
  });

  it("structured content passes the client's validation against the listed schema", async () => {
    await client.listTools();
    const result = await client.callTool({ name: "get-structured-content", arguments: { location: "New York" } });
    expect(result.structuredContent).toEqual({ temperature: 33, conditions: "Cloudy", humidity: 82 });
  });

  it("a call with a progress token gets its result", async () => {
    const result = await client.callTool({ name: "trigger-long-running-operation", arguments: { duration: 0.02, steps: 2 } }, undefined, {
      onprogress: () => undefined,
    });
    expect(result.content).toEqual([{ type: "text", text: "Long running operation completed. Duration: 0.02 seconds, Steps: 2." }]);
  });

  it("a task runs to its result", async () => {
    await client.listTools();
    const messages = [];
    for await (const message of client.experimental.tasks.callToolStream({
      name: "simulate-research-query",
      arguments: { topic: "crabs" },
    })) {
      messages.push(message);
    }
    expect(messages[0]?.type).toBe("taskCreated");
    expect(messages.at(-1)).toMatchObject({
      type: "result",
      result: { content: [{ type: "text", text: expect.stringContaining("# Research Report: crabs") as string }] },
    });
  });

  it("a client reads a resource made by another client's call", async () => {
    const data = `data:text/plain;base64,${Buffer.from("packed ünï").toString("base64")}`;
    const { content } = await client.callTool({ name: "gzip-file-as-resource", arguments: { name: "packed.gz", data } });
    expect(content).toEqual([expect.objectContaining({ type: "resource_link", uri: "demo://resource/session/packed.gz" })]);

    await using other = await SdkClient.connect(sidecar.url);
    const { contents } = await other.readResource({ uri: "demo://resource/session/packed.gz" });
    const [packed] = contents;
    if (packed === undefined || !("blob" in packed)) throw new Error(JSON.stringify(contents));
    expect(gunzipSync(Buffer.from(packed.blob, "base64")).toString()).toBe("packed ünï");
  });

  it("a client reads a resource of a template", async () => {
    const { contents } = await client.readResource({ uri: "demo://resource/dynamic/text/7" });
    expect(contents).toEqual([
      {
        uri: "demo://resource/dynamic/text/7",
        mimeType: "text/plain",
        text: expect.stringMatching(/^Resource 7: This is a plaintext resource created at /) as string,
      },
    ]);
  });

  it("a client subscribes to a resource and unsubscribes", async () => {
    const uri = "demo://resource/static/document/features.md";
    expect(await client.subscribeResource({ uri })).toEqual({});
    expect(await client.unsubscribeResource({ uri })).toEqual({});
  });

  it("a client gets a prompt with its arguments", async () => {
    const { messages } = await client.getPrompt({ name: "args-prompt", arguments: { city: "Bern" } });
    expect(messages).toEqual([{ role: "user", content: { type: "text", text: "What's weather in Bern?" } }]);
  });

  it("arguments of a prompt and of a resource template are completed", async () => {
    const ofPrompt = await client.complete({
      ref: { type: "ref/prompt", name: "completable-prompt" },
      argument: { name: "department", value: "S" },
    });
    expect(ofPrompt.completion.values).toEqual(["Sales", "Support"]);
    const ofTemplate = await client.complete({
      ref: { type: "ref/resource", uri: "demo://resource/dynamic/text/{resourceId}" },
      argument: { name: "resourceId", value: "7" },
    });
    expect(ofTemplate.completion.values).toEqual(["7"]);
  });

  it("the server answers ping and accepts a logging level", async () => {
    expect(await client.ping()).toEqual({});
    expect(await client.setLoggingLevel("error")).toEqual({});
  });

  it("the client gets a server's error with its code and message", async () => {
    const error = await client.readResource({ uri: "demo://no/such/resource" }).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(McpError);
    // The server has added one prefix, the client the other.
    expect(error).toMatchObject({
      code: -32602,
      message: "MCP error -32602: MCP error -32602: Resource demo://no/such/resource not found",
    });
  });

  it("the client gets the error of an unknown tool", async () => {
    expect(await client.callTool({ name: "no-such-tool", arguments: {} })).toEqual({
      content: [{ type: "text", text: "MCP error -32602: Tool no-such-tool not found" }],
      isError: true,
    });
  });

  it("each of many concurrent calls of two clients gets its own result", async () => {
    await using other = await SdkClient.connect(sidecar.url);
    const messages = Array.from({ length: 100 }, (_, index) => `call ${index}`);
    const call = async (each: SdkClient, message: string): Promise<unknown> =>
      (await each.callTool({ name: "echo", arguments: { message } })).content;
    const results = await Promise.all([
      ...messages.map((message) => call(client, message)),
      ...messages.map((message) => call(other, `other ${message}`)),
    ]);
    expect(results).toEqual(
      [...messages, ...messages.map((message) => `other ${message}`)].map((message) => [{ type: "text", text: `Echo: ${message}` }]),
    );
  });
});
