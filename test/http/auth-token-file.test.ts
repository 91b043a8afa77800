import { appendFile, mkdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { offer, readSeen, waitForHanging, waitForSeen } from "../support/fixture-server.ts";
import { HttpBench } from "../support/http-bench.ts";
import { send } from "../support/http-client.ts";
import { LegacySseClient } from "../support/legacy-sse-client.ts";
import { EVERYTHING, waitUntilFree } from "../support/listens.ts";
import { initializeRequest, McpClient } from "../support/mcp-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import type { RunningSidecar, StartOptions } from "../support/running-sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { tokenClients, TOKENS } from "../support/token-clients.ts";

const FIRST = "first-token-0123456789";
const SECOND = "second-token-0123456789";
const RELOADED = "auth tokens reloaded";
const NOT_TAKEN = "auth token file rejected: the tokens are unchanged";

function bearer(token: string): Record<string, string> {
  return { Authorization: `Bearer ${token}` };
}

async function start(directory: TempDir, options: StartOptions = {}): Promise<RunningSidecar> {
  const file = directory.file("tokens");
  await writeFile(file, `${FIRST}\n`);
  return HttpBench.start({ ...options, flags: ["--auth-token-file", file, ...(options.flags ?? [])] });
}

function reloads(sidecar: RunningSidecar): number {
  return sidecar.logLines.filter(({ msg }) => msg === RELOADED).length;
}

async function waitForReload(sidecar: RunningSidecar, before: number): Promise<void> {
  await sidecar.waitFor(() => (reloads(sidecar) > before ? true : undefined), "the reload");
}

async function isLetIn(sidecar: RunningSidecar, token: string): Promise<boolean> {
  const { status } = await send(`${sidecar.origin}/status`, { method: "GET", headers: bearer(token) });
  return status === 200;
}

describe.concurrent("AUTH_TOKEN", () => {
  it.each([
    ["a short AUTH_TOKEN is accepted with a warning", "short", ["it has fewer than 16 characters"]],
    ["an AUTH_TOKEN of 16 characters is accepted without a warning", "0123456789abcdef", []],
  ])("%s", async (_what, token, reasons) => {
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN: token } });
    expect([await isLetIn(sidecar, token), await isLetIn(sidecar, `${token}x`)]).toEqual([true, false]);
    await sidecar.stop();
    const warnings = sidecar.logLines.filter(({ msg }) => msg === "auth token is short: it can be guessed");
    expect(warnings.map(({ level, reason }) => [level, reason])).toEqual(reasons.map((reason) => ["warn", reason]));
  });
});

describe.concurrent("AUTH_TOKEN_FILE", () => {
  it("each token of the file is accepted, and nothing else is", async () => {
    await using directory = await TempDir.create();
    const file = directory.file("tokens");
    await writeFile(file, `# two of them\n${FIRST}\n\n${SECOND}\n`);
    await using sidecar = await HttpBench.start({ env: { CLAW_MCP_STDIO_AUTH_TOKEN_FILE: file } });
    const tokens = [FIRST, SECOND, `${FIRST}\n${SECOND}`, "# two of them", file, ""];
    expect(await Promise.all(tokens.map((token) => isLetIn(sidecar, encodeURI(token))))).toEqual([true, true, false, false, false, false]);
  });

  describe("a changed token file", () => {
    it("a file that is replaced by a rename is reloaded each time", async () => {
      await using directory = await TempDir.create();
      await using sidecar = await start(directory);
      for (const [index, token] of [SECOND, FIRST].entries()) {
        await writeFile(directory.file("new"), token);
        await rename(directory.file("new"), directory.file("tokens"));
        await waitForReload(sidecar, index);
        expect(await isLetIn(sidecar, token)).toBe(true);
      }
    });

    it("a file behind a replaced symbolic link is reloaded, as in a Kubernetes secret", async () => {
      await using directory = await TempDir.create();
      for (const [name, token] of Object.entries({ "..old": FIRST, "..new": SECOND })) {
        await mkdir(directory.file(name));
        await writeFile(directory.file(`${name}/tokens`), token);
      }
      await symlink("..old", directory.file("..data"));
      await symlink("..data/tokens", directory.file("tokens"));
      await using sidecar = await HttpBench.start({ flags: ["--auth-token-file", directory.file("tokens")] });
      await symlink("..new", directory.file("..data_tmp"));
      await rename(directory.file("..data_tmp"), directory.file("..data"));
      await rm(directory.file("..old"), { recursive: true });
      await sidecar.waitForLog(RELOADED);
      expect([await isLetIn(sidecar, FIRST), await isLetIn(sidecar, SECOND)]).toEqual([false, true]);
      expect(sidecar.logLines.filter(({ msg }) => msg === NOT_TAKEN)).toEqual([]);
    });
  });

  it("an emptied, malformed or deleted file leaves the tokens unchanged, with one warning each", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await start(directory);
    const file = directory.file("tokens");
    await truncate(file);
    await sidecar.waitForLog(NOT_TAKEN, ({ reason }) => reason === "it contains no token");
    await appendFile(file, `${SECOND} ${SECOND}\n`);
    await sidecar.waitForLog(NOT_TAKEN, ({ reason }) => String(reason).startsWith("line 1 is not a token"));
    await rm(file);
    await sidecar.waitForLog(NOT_TAKEN, ({ reason }) => reason === "it cannot be read (ENOENT)");
    expect([await isLetIn(sidecar, FIRST), await isLetIn(sidecar, SECOND)]).toEqual([true, false]);
    await writeFile(file, SECOND);
    await sidecar.waitForLog(RELOADED);
    expect([await isLetIn(sidecar, FIRST), await isLetIn(sidecar, SECOND)]).toEqual([false, true]);
    await sidecar.stop();
    expect(sidecar.logLines.filter(({ msg }) => msg === NOT_TAKEN)).toHaveLength(3);
    expect(sidecar.transcript()).not.toContain(FIRST);
    expect(sidecar.transcript()).not.toContain(SECOND);
  });

  it("a new token is masked in the log as the first ones are", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await start(directory);
    await writeFile(directory.file("tokens"), SECOND);
    await sidecar.waitForLog(RELOADED);
    const path = directory.file(SECOND);
    await writeFile(path, "");
    await (await sidecar.client({ token: SECOND })).toolText("wait_for_file", { path });
    await sidecar.waitFor(() => sidecar.logLines.find(({ msg }) => msg.startsWith("waiting for ")), "the line of the server");
    expect(sidecar.transcript()).toContain("/***");
    expect(sidecar.transcript()).not.toContain(SECOND);
  });

  describe("the removal of a token", () => {
    it("HTTP+SSE streams of a removed token end once their calls are answered", async () => {
      await using directory = await TempDir.create();
      // An unused stream ends after this time in any case.
      await using sidecar = await start(directory, { flags: ["--legacy-sse", "on", "--request-timeout-ms", "600000"] });
      await appendFile(directory.file("tokens"), `${SECOND}\n`);
      await sidecar.waitForLog(RELOADED);
      using initialized = await LegacySseClient.connect(sidecar.origin, {}, bearer(FIRST));
      using silent = await LegacySseClient.open(sidecar.origin, bearer(FIRST));
      using other = await LegacySseClient.connect(sidecar.origin, {}, bearer(SECOND));
      const call = initialized.callTool("hang");
      await writeFile(directory.file("tokens"), SECOND);
      expect(await call).toMatchObject({ error: { data: { code: "REQUEST_CANCELLED" } } });
      expect(await Promise.all([initialized.ended, silent.ended])).toEqual(["complete", "complete"]);
      expect(await other.toolText("echo", { text: "still here" })).toBe("still here");
      const { status } = await send(initialized.url, { headers: { ...bearer(SECOND), "Content-Type": "application/json" }, body: "{}" });
      expect(status).not.toBe(202);
    });

    it("a request that is completed after its token's removal does not open a session", async () => {
      await using directory = await TempDir.create();
      await using sidecar = await start(directory);
      using connection = await RawConnection.open(sidecar.origin);
      const body = JSON.stringify(initializeRequest({ sampling: {} }));
      const fields = ["Host: localhost", "Content-Type: application/json", `Content-Length: ${body.length}`];
      await connection.write(["POST /mcp HTTP/1.1", ...fields, `Authorization: Bearer ${FIRST}`, "", body.slice(0, 10)].join("\r\n"));
      expect(await isLetIn(sidecar, FIRST)).toBe(true);
      await writeFile(directory.file("tokens"), SECOND);
      await sidecar.waitForLog(RELOADED);
      await connection.write(body.slice(10));
      const { status, headers } = await connection.reply();
      expect(status).toBe(401);
      expect(headers).not.toHaveProperty("mcp-session-id");
      expect((await readStatus(sidecar, bearer(SECOND))).lanes.private.servers).toBe(0);
    });

    it("an initialize request held during its token's removal does not leave a session", async () => {
      await using directory = await TempDir.create();
      await using sidecar = await start(directory, { mode: "gated", env: { FIXTURE_GATE: directory.file("gate") }, untilReady: false });
      await sidecar.waitForLog("mcp server started");
      const client = new McpClient(sidecar.url, { headers: bearer(FIRST) });
      const opening = client.post(initializeRequest());
      while ((await readStatus(sidecar, bearer(FIRST))).lanes.shared.waiting === 0);
      await writeFile(directory.file("tokens"), SECOND);
      await sidecar.waitForLog(RELOADED);
      await writeFile(directory.file("gate"), "");
      const opened = await opening;
      const session = { ...bearer(SECOND), "Mcp-Session-Id": String(opened.headers["mcp-session-id"]) };
      expect(await new McpClient(sidecar.url, { headers: session }).request("ping")).toMatchObject({ status: 404 });
    });
  });
});

const [, ...OTHERS] = TOKENS;
const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
const ENV = { FIXTURE_INITIALIZE_RESULT: offer(CAPABILITIES) };

// The server without sessions is the shared process; that of both eras has a second one; the last one has sessions.
describe.each(["modern-only", "dual", "keeps-state"])("the removal of a token, with a server in mode %s", (mode) => {
  it("a removed token ends its subscriptions and calls, and not those of another token", async () => {
    await using sidecar = await HttpBench.start({ mode, env: ENV, hasTokens: true });
    const [client, other] = tokenClients(sidecar, {});
    const revoked = await client.listen(EVERYTHING, { id: 1 });
    await using kept = await other.listen({ toolsListChanged: true }, { id: 1 });
    const call = client.callTool("hang");
    const [wireId] = await waitForHanging(other, 1);
    await writeFile(sidecar.directory.file("tokens"), OTHERS.join("\n"));
    expect(await revoked.rest()).toMatchObject([{ id: 1, result: { resultType: "complete" } }]);
    expect((await call).error?.data).toMatchObject({ code: "REQUEST_CANCELLED", sent: true });
    expect((await client.begin("subscriptions/listen", { notifications: {} })).status).toBe(401);
    await waitForSeen(other, `notifications/cancelled ${wireId}`);
    const stopped = mode === "keeps-state" ? /^resources\/unsubscribe$/ : /^notifications\/cancelled (?!NaN)/;
    while (!(await readSeen(other)).some((each) => stopped.test(each) && each !== `notifications/cancelled ${wireId}`));
    const headers = { Authorization: `Bearer ${OTHERS[0]}` };
    expect((await readStatus(sidecar, headers)).stateless?.subscriptions).toBe(1);
    const change = JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    if (mode === "keeps-state") await other.callTool("noise", { line: change });
    else await other.callTool("change_list", { list: "tools" });
    expect((await kept.next()).method).toBe("notifications/tools/list_changed");
    await kept.close();
    await waitUntilFree(sidecar, headers);
  });
});
