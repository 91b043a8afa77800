import { describe, expect, it } from "vitest";
import { stopAndReadLog } from "../support/log-end.ts";
import { runMain, Sidecar } from "../support/sidecar.ts";

const AT_ONCE = ["--restart-backoff-ms", "1", "--restart-max-ms", "1"];
const SECRET = "k-0123456789-abcdef";

describe("logs", () => {
  describe.each(["info", "debug"])("the log at level %s", (level) => {
    it("the log contains neither message contents nor session ids", async () => {
      await using sidecar = await Sidecar.start({ flags: [...AT_ONCE, "--log-level", level] });
      const client = await sidecar.client();
      expect(await client.toolText("echo", { text: "PAYLOAD-argument" })).toBe("PAYLOAD-argument");
      await client.callTool("raw_result", { result: '{"content":[{"type":"text","text":"PAYLOAD-result"}]}' }, "PAYLOAD-id");
      await client.request("tools/call", { name: "progress", arguments: {}, _meta: { progressToken: "PAYLOAD-token" } });
      await client.callTool("raw_line", { line: '{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"PAYLOAD-error"}}' });
      expect((await client.post('{"PAYLOAD-invalid":1}')).status).toBe(400);
      expect((await client.post('{"PAYLOAD-broken')).status).toBe(400);
      await client.notify("notifications/message", { data: "PAYLOAD-notification" });
      const cancel = {
        jsonrpc: "2.0",
        method: "notifications/cancelled",
        params: { requestId: "PAYLOAD-cancel", reason: "PAYLOAD-reason" },
      };
      const waiting = {
        jsonrpc: "2.0",
        id: "PAYLOAD-cancel",
        method: "tools/call",
        params: { name: "wait_for_file", arguments: { path: "/never" } },
      };
      const cancelled = client.post(waiting);
      await sidecar.waitForLog("waiting for /never");
      await client.post(cancel);
      expect((await cancelled).status).toBe(202);
      expect((await client.callTool("exit", { code: 1, text: "PAYLOAD-crash" })).error?.data?.["code"]).toBe("UPSTREAM_EXITED");
      await sidecar.waitForLog("mcp server ready", (line) => line["generation"] === 2);
      await stopAndReadLog(sidecar);
      expect(client.sessionId).not.toBe("");
      expect(sidecar.transcript()).not.toContain(client.sessionId);
      expect(sidecar.transcript()).not.toContain("PAYLOAD");
    });
  });

  describe("credentials in the log", () => {
    it("a credential is masked in the server's stderr", async () => {
      await using sidecar = await Sidecar.start({ env: { MY_API_KEY: SECRET } });
      await (await sidecar.client()).toolText("stderr", { text: `login with ${SECRET}` });
      await sidecar.waitForLog("login with ***");
      expect(sidecar.transcript()).not.toContain(SECRET);
    });

    it("a credential is masked even if a long line is split inside it", async () => {
      await using sidecar = await Sidecar.start({ env: { MY_API_KEY: SECRET } });
      const client = await sidecar.client();
      // Lines are logged in pieces of 16 KiB: every cut through the secret is tried.
      for (let before = 1; before < SECRET.length; before++) {
        await client.toolText("stderr", { text: `${"x".repeat(16 * 1024 - before)}${SECRET}`, count: 1 });
      }
      await client.toolText("stderr", { text: "that was all" });
      await sidecar.waitForLog("that was all");
      const logged = sidecar.logLines.filter((line) => line["stream"] === "stderr").map(({ msg }) => msg);
      expect(logged.length).toBeGreaterThan(SECRET.length);
      // The joined pieces are the line, which must not contain the secret.
      expect(logged.join("")).not.toContain(SECRET);
    });

    it("a credential is masked in stdout lines that are not JSON-RPC", async () => {
      await using sidecar = await Sidecar.start({ env: { MY_API_KEY: SECRET } });
      await (await sidecar.client()).toolText("noise", { line: `starting with ${SECRET}` });
      const line = await sidecar.waitForLog("stdout line skipped: not json-rpc");
      expect(line["line"]).toBe("starting with ***");
      expect(sidecar.transcript()).not.toContain(SECRET);
    });
  });

  describe("--log-level", () => {
    /** Returns the levels in the log of a failed start, which logs an info message, a warning and an error. */
    async function levelsOf(level: string): Promise<{ readonly code: number | null; readonly levels: readonly unknown[] }> {
      const args = ["--addr", "127.0.0.1:0", "--log-level", level, "--restart-limit", "1", "--restart-backoff-ms", "1", "--", "false"];
      const { code, stdout, stderr } = await runMain(args, { CLAW_MCP_STDIO_UNKNOWN: "x" });
      expect(stderr).toBe("");
      const lines = stdout.split("\n").filter((line) => line !== "");
      return { code, levels: [...new Set(lines.map((line) => (JSON.parse(line) as { level: string }).level))].toSorted() };
    }

    it.each([
      ["silent", []],
      ["error", ["error"]],
      ["warn", ["error", "warn"]],
      ["info", ["error", "info", "warn"]],
      ["debug", ["debug", "error", "info", "warn"]],
    ])("the level %s shows the levels %j", async (level, levels) => {
      expect(await levelsOf(level)).toEqual({ code: 1, levels });
    });

    it("only the level debug shows dropped notifications", async () => {
      const dropped = "server notification dropped";
      await using debug = await Sidecar.start({ flags: ["--log-level", "debug"] });
      await (await debug.client()).toolText("progress");
      expect(await debug.waitForLog(dropped)).toMatchObject({ level: "debug", method: "notifications/progress" });
      await using info = await Sidecar.start();
      const client = await info.client();
      await client.toolText("progress");
      await client.toolText("stderr", { text: "afterwards" });
      await info.waitForLog("afterwards");
      expect(info.logLines.map(({ msg }) => msg)).not.toContain(dropped);
    });
  });
});
