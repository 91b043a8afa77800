import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { offer, readSeen, waitForHanging, waitForSeen } from "../support/fixture-server.ts";
import { EVERYTHING, waitUntilFree } from "../support/listens.ts";
import { HttpBench } from "../support/http-bench.ts";
import { readStatus } from "../support/status.ts";
import { TempDir } from "../support/temp-dir.ts";
import { flagsForTokens, TOKENS, tokenClients } from "../support/token-clients.ts";

const [, ...OTHERS] = TOKENS;
const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true } };
const ENV = { FIXTURE_INITIALIZE_RESULT: offer(CAPABILITIES) };

// The server without sessions is the shared process; that of both eras has a second one; the last one has sessions.
describe.each(["modern-only", "dual", "keeps-state"])("the removal of a token, with a server in mode %s", (mode) => {
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
