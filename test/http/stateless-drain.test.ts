import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { readSeen, readWhere, waitForHanging, waitForSeen } from "../support/in-flight.ts";
import { EVERYTHING, waitUntilFree } from "../support/listens.ts";
import { HttpBench } from "../support/http-bench.ts";
import { offer } from "../support/offers.ts";
import { isGroupAlive } from "../support/sidecar.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";

const [, ...OTHERS] = TOKENS;
const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
const ENV = { FIXTURE_INITIALIZE_RESULT: offer(CAPABILITIES) };

// The server without sessions is the shared process; that of both eras has a second one; the last one has sessions.
describe.each(["modern-only", "dual", "keeps-state"])("SIGTERM, with a server in mode %s", (mode) => {
  it("subscriptions end with a result while the server runs and calls go on", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("go");
    await using sidecar = await HttpBench.start({ mode, env: ENV, flags: ["--drain-timeout-ms", "20000"] });
    const client = sidecar.modernClient();
    const listens = [await client.listen(EVERYTHING, { id: 1 }), await client.listen({ toolsListChanged: true }, { id: "2" })];
    const { pid } = await readWhere(client);
    const call = client.callTool("wait_for_file", { path });
    await sidecar.waitForLog(`waiting for ${path}`);
    sidecar.kill("SIGTERM");
    for (const [index, listen] of listens.entries()) {
      const messages = await listen.rest();
      expect(messages).toMatchObject([{ id: [1, "2"][index], result: { resultType: "complete" } }]);
    }
    expect(isGroupAlive(pid)).toBe(true);
    const refused = await client.begin("subscriptions/listen", { notifications: {} });
    expect({ status: refused.status, data: (await refused.answer()).error?.data }).toMatchObject({
      status: 503,
      data: { code: "SHUTTING_DOWN", sent: false },
    });
    await writeFile(path, "");
    expect(await call).toMatchObject({ status: 200, result: { resultType: "complete", content: [{ text: "the file is there" }] } });
    expect(await sidecar.ended).toBe(0);
    expect(isGroupAlive(pid)).toBe(false);
  });

  it("a sidecar with only subscriptions stops at once", async () => {
    await using sidecar = await HttpBench.start({ mode, env: ENV, flags: ["--drain-timeout-ms", "600000"] });
    const listen = await sidecar.modernClient().listen(EVERYTHING);
    sidecar.kill("SIGTERM");
    expect(await listen.rest()).toMatchObject([{ result: { resultType: "complete" } }]);
    expect(await sidecar.ended).toBe(0);
  });

  it("a removed token ends its subscriptions and calls, and not those of another token", async () => {
    await using directory = await TempDir.create();
    await using sidecar = await HttpBench.start({ mode, env: ENV, flags: await flagsForTokens(directory) });
    const [client, other] = tokenClients(sidecar, {});
    const revoked = await client.listen(EVERYTHING, { id: 1 });
    await using kept = await other.listen({ toolsListChanged: true }, { id: 1 });
    const call = client.callTool("hang");
    const [wireId] = await waitForHanging(other, 1);
    await writeFile(directory.file("tokens"), OTHERS.join("\n"));
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
