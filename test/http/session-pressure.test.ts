import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { errorReply, readError } from "../support/error-reply.ts";
import type { HttpReply } from "../support/http-client.ts";
import { resultText } from "../support/json-rpc.ts";
import { ASKABLE, initializeRequest, McpClient, toolCall } from "../support/mcp-client.ts";
import { RawConnection, postBytes } from "../support/raw-connection.ts";
import { openUnread } from "../support/open-sockets.ts";
import { HttpBench } from "../support/http-bench.ts";
import type { RunningSidecar } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";

const REFUSAL = { id: 1, data: { sent: false, retrySafe: true, retryAfterSeconds: 5 } };

function initialize(sidecar: RunningSidecar, capabilities = {}): Promise<HttpReply> {
  return new McpClient(sidecar.url).post(initializeRequest(capabilities));
}

describe("a session in use", () => {
  it.each([0, 3])("its request is sent even if the body takes long, after %i dropped GET streams", async (dropped) => {
    await using sidecar = await HttpBench.start({ flags: ["--max-sessions", "2", "--session-max-age-ms", "1"] });
    const client = await sidecar.client();
    for (let count = 0; count < dropped; count++) {
      (await client.openStream())[Symbol.dispose]();
      while ((await readStatus(sidecar)).openStreams > 0);
    }
    const bytes = postBytes(toolCall("echo", { text: "here" }, 1), client.sessionId);
    using slow = await RawConnection.open(sidecar.origin);
    const other = await sidecar.client();
    await slow.write(bytes.slice(0, -1));
    // This session is used after the head of the other request has arrived.
    await other.toolText("echo", { text: "x".repeat(100_000) });
    await sidecar.client();
    await slow.write(bytes.slice(-1));
    expect(JSON.parse((await slow.reply("POST")).body)).toMatchObject({ result: { content: [{ text: "here" }] } });
    expect((await other.callTool("echo")).status).toBe(404);
  });

  it("its response is read, and its client can send another request", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-sessions", "2"] });
    const client = await sidecar.client();
    const bytes = postBytes(toolCall("big", { length: 16_000_000 }, 1), client.sessionId);
    using unread = await openUnread(sidecar.origin, bytes);
    while ((await readStatus(sidecar)).memory["unread"] === 0);
    for (let count = 0; count < 3; count++) await sidecar.client();
    expect(await client.toolText("echo", { text: "here" })).toBe("here");
    expect(unread.destroyed).toBe(false);
  });
});

describe("MAX_SESSIONS sessions in use", () => {
  it("initialize gets 503 without a new server, and nothing in use ends", async () => {
    await using sidecar = await HttpBench.start({ flags: ["--max-sessions", "2"] });
    const path = sidecar.directory.file("go");
    const calling = await sidecar.client();
    const call = calling.callTool("wait_for_file", { path });
    await sidecar.waitForLog(`waiting for ${path}`);
    using stream = await (await sidecar.client()).openStream();
    for (const capabilities of [{}, ASKABLE]) {
      const reply = await initialize(sidecar, capabilities);
      expect(readError(reply)).toStrictEqual(errorReply(503, -32000, "TOO_MANY_SESSIONS", REFUSAL));
      expect([reply.headers["retry-after"], reply.headers["mcp-session-id"]]).toEqual(["5", undefined]);
    }
    await calling.notify("notifications/x-write", { line: '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}' });
    expect(await stream.messages(1)).toHaveLength(1);
    await writeFile(path, "");
    expect(resultText(await call)).toBe("the file is there");
    expect((await initialize(sidecar)).status).toBe(200);
    expect(sidecar.logLines.filter(({ msg }) => msg === "mcp server started")).toHaveLength(1);
  });
});
