import { linkSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TempDir } from "../../../test/support/temp-dir.ts";
import { failure } from "../src/tool.ts";
import { decide, success, ToolServer } from "./tool-server.ts";

// The titles are the test points of the feature document.
describe("Security Tests", () => {
  let server: ToolServer;
  let outside: TempDir;
  beforeAll(async () => {
    [server, outside] = await Promise.all([ToolServer.start(), TempDir.create()]);
  });
  afterAll(() => Promise.all([server[Symbol.asyncDispose](), outside[Symbol.asyncDispose]()]));

  it("Verify file tools cannot access app-internal storage", async () => {
    await using client = await server.session();
    const { folder } = server;
    const secret = outside.file("secret.txt");
    writeFileSync(secret, "secret");
    symlinkSync(secret, folder.file("link.txt"));
    symlinkSync(outside.file("missing"), folder.file("dangling.txt"));
    symlinkSync(outside.path, folder.file("linked"));
    linkSync(secret, folder.file("hard.txt"));
    mkdirSync(folder.file("inner"));
    symlinkSync("/proc/self", folder.file("inner/self"));
    const absolute = ["/etc/passwd", "/proc/self/environ", secret, `${folder.path}/../x`, `${folder.path}x`];
    const relative = ["../secret.txt", "inner/../../secret.txt", "inner/self/environ", "inner/self/root/etc/passwd", "inner/self/fd/0"];
    const links = ["link.txt", "dangling.txt", "linked/secret.txt", "linked/new.txt", "hard.txt"];
    const paths = [...absolute, ...relative, ...links, "a\0b"];
    for (const path of paths) {
      for (const [name, more] of [
        ["read_file", {}],
        ["write_file", { content: "overwritten" }],
        ["write_file", { content: "appended", mode: "append" }],
      ] as const) {
        const outcome = await client.call(name, { path, ...more });
        expect([path, outcome.status]).toEqual([path, "error"]);
        expect(JSON.stringify(outcome)).not.toMatch(/"secret"|root:/);
      }
    }
    expect(readFileSync(secret, "utf8")).toBe("secret");
    expect(await client.call("read_file", { path: "link.txt" })).toEqual(
      failure("execution_error", "link.txt is a symbolic link, which is not followed"),
    );
  });

  it("Verify tool results are stored with same security as messages", async () => {
    await using client = await server.session();
    const args = { path: "diary.txt", content: "a confidential sentence" };
    await client.call("write_file", args);
    expect(await client.call("read_file", { path: args.path })).toEqual(success(args.content));
    await client.call("http_request", { url: "http://user:confidential@127.0.0.1/" });
    await client.call("confidential\nline");
    const { sidecar } = server;
    await sidecar.waitFor(
      () => sidecar.logLines.find(({ msg }) => msg.startsWith("unknown tool: validation_error after")),
      "the last call",
    );
    // The server keeps no results. Its log has only names of tools, outcomes and durations.
    expect(sidecar.transcript()).not.toContain("confidential");
    expect(sidecar.transcript()).toMatch(/read_file: success after \d+ ms/);
  });

  it("Verify tools respect Android permission model", async () => {
    await using revoked = await ToolServer.start({ ONECLAW_PERMISSIONS: "none" });
    const asked: string[] = [];
    const answers = ["Deny", "Allow"];
    const call = { url: "http://127.0.0.1:1/" };
    await using client = await revoked.session(({ params }) => {
      asked.push(String(params["message"]));
      return decide(answers.shift() ?? "");
    });
    // Checked before each execution: a denial is asked again, a grant is remembered.
    expect(await client.call("http_request", call)).toEqual(failure("permission_denied", "Permission INTERNET was denied by the user"));
    expect(await client.call("http_request", call)).toMatchObject({ error_type: "execution_error" });
    expect(await client.call("http_request", call)).toMatchObject({ error_type: "execution_error" });
    expect(asked).toEqual(Array.from({ length: 2 }, () => "The tool http_request needs the permission INTERNET."));
    // The answer of one client is not the answer of another one.
    let denials = 0;
    await using other = await revoked.session(() => {
      denials += 1;
      return decide("Deny and don't ask again");
    });
    const never = /^Permission INTERNET was denied by the user for all calls\. Enable it in the settings/;
    for (let round = 0; round < 2; round += 1) {
      expect(await other.call("http_request", call)).toMatchObject({
        error_type: "permission_denied",
        message: expect.stringMatching(never) as string,
      });
    }
    expect(denials).toBe(1);
    expect(await client.call("http_request", call)).toMatchObject({ error_type: "execution_error" });
    await using silent = await revoked.session();
    expect(await silent.call("http_request", call)).toMatchObject({
      error_type: "permission_denied",
      message: expect.stringContaining("this client cannot ask the user") as string,
    });
  });
});
