import { chmodSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../test/support/open-sockets.ts";
import { failure } from "../src/tool.ts";
import { success, type ToolClient, ToolServer } from "./tool-server.ts";
import { WebServer } from "./web-server.ts";

const LIMIT = 256 * 1024;

// The titles are the test points of the feature document.
describe("Edge Cases", () => {
  let server: ToolServer;
  let web: WebServer;
  let client: ToolClient;
  beforeAll(async () => {
    const env = { ONECLAW_MAX_THREADS: "2", ONECLAW_QUESTION_TIMEOUT_MS: "300" };
    [server, web] = await Promise.all([ToolServer.start(env, undefined, ["--max-body-bytes", "8388608"]), WebServer.start()]);
    client = await server.session();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await Promise.all([server[Symbol.asyncDispose](), web[Symbol.asyncDispose]()]);
  });

  it("Tool called with empty parameters", async () => {
    expect(await client.call("get_current_time")).toMatchObject({ status: "success" });
    for (const name of ["read_file", "write_file", "http_request"]) {
      expect(await client.call(name)).toMatchObject({
        error_type: "validation_error",
        message: expect.stringContaining("must have required property") as string,
      });
    }
    expect(await client.call("read_file", { path: "" })).toMatchObject({ error_type: "validation_error" });
  });

  it("Tool called with extremely large parameters", async () => {
    const content = "x".repeat(5 * 1024 * 1024);
    expect(await client.call("write_file", { path: "large.txt", content })).toEqual(
      failure("execution_error", `large.txt would have ${content.length} bytes. The limit is 1048576 bytes`),
    );
    expect(await client.call("get_current_time", { timezone: content })).toEqual(
      failure("validation_error", "Invalid arguments of get_current_time: timezone must NOT have more than 100 characters"),
    );
    const path = "a/".repeat(2000);
    expect(await client.call("read_file", { path: `${path}b` })).toMatchObject({ error_type: "execution_error" });
    expect(await client.call("read_file", { path: "n".repeat(300) })).toMatchObject({
      message: expect.stringMatching(/^n{300}: name too long$/) as string,
    });
    expect(await client.call("n".repeat(1000))).toEqual(failure("validation_error", `Tool ${"n".repeat(100)} is not available`));
  });

  it("HTTP request to unreachable host", async () => {
    expect(await client.call("http_request", { url: `http://127.0.0.1:${await freePort()}/` })).toMatchObject({
      error_type: "execution_error",
      message: expect.stringMatching(/^The request to 127\.0\.0\.1:\d+ failed: connect ECONNREFUSED/) as string,
    });
    expect(await client.call("http_request", { url: "http://host.invalid/" })).toMatchObject({
      message: expect.stringMatching(/^The request to host\.invalid failed: getaddrinfo E/) as string,
    });
  });

  it("HTTP request returning very large response body", async () => {
    const cut = success(expect.objectContaining({ status: 200, body: "x".repeat(LIMIT), truncated: true, limit_bytes: LIMIT }));
    expect(await client.call("http_request", { url: web.url("/large/50000000") })).toEqual(cut);
    const whole = await client.call("http_request", { url: web.url(`/large/${LIMIT}`) });
    expect(whole).toMatchObject({ result: { body: "x".repeat(LIMIT) } });
    expect(JSON.stringify(whole)).not.toContain("truncated");
  });

  it("File read on a very large file", async () => {
    writeFileSync(server.folder.file("huge.bin"), "");
    truncateSync(server.folder.file("huge.bin"), 2 ** 40);
    expect(await client.call("read_file", { path: "huge.bin" })).toEqual(
      failure("execution_error", "huge.bin has 1099511627776 bytes. The limit is 1048576 bytes"),
    );
  });

  it("File write to a read-only path", async () => {
    const file = server.folder.file("fixed.txt");
    writeFileSync(file, "fixed");
    chmodSync(file, 0o444);
    mkdirSync(server.folder.file("closed"));
    chmodSync(server.folder.file("closed"), 0o555);
    for (const mode of ["overwrite", "append"]) {
      expect(await client.call("write_file", { path: "fixed.txt", content: "x", mode })).toMatchObject({
        error_type: "execution_error",
        message: "fixed.txt is read-only",
      });
      expect(await client.call("write_file", { path: "closed/new.txt", content: "x", mode })).toEqual(
        failure("execution_error", "The folder of closed/new.txt is read-only"),
      );
    }
    expect(readFileSync(file, "utf8")).toBe("fixed");
  });

  it("Multiple tool calls requested simultaneously", async () => {
    const lines = Array.from({ length: 20 }, (_, index) => `line ${index}\n`);
    const calls = lines.map((content) => client.call("write_file", { path: "log.txt", content, mode: "append" }));
    expect((await Promise.all(calls)).every(({ status }) => status === "success")).toBe(true);
    const written = readFileSync(server.folder.file("log.txt"), "utf8").split(/(?<=\n)/);
    expect(written.toSorted()).toEqual(lines.toSorted());
  });

  it("Tool call chain with 10+ rounds", async () => {
    for (let round = 0; round < 12; round += 1) {
      const outcome = await client.call("read_file", { path: "chain.txt" });
      const content = outcome.status === "success" ? `${String(outcome.result)}${round},` : "start,";
      await client.call("write_file", { path: "chain.txt", content });
    }
    expect(await client.call("read_file", { path: "chain.txt" })).toEqual(success("start,1,2,3,4,5,6,7,8,9,10,11,"));
  });

  it("Permission requested while app is in background", async () => {
    // The user does not see the question.
    const withdrawn = Promise.withResolvers<void>();
    await using unattended = await server.session(({ signal }) => {
      signal.addEventListener("abort", () => withdrawn.resolve());
      return new Promise<never>(() => {});
    });
    expect(await unattended.call("get_location")).toEqual(
      failure("permission_denied", "Permission ACCESS_FINE_LOCATION was not granted, because the client returned no valid answer in time"),
    );
    await withdrawn.promise;
    // The client cannot ask.
    await using silent = await server.stateless();
    expect(await silent.call("get_location")).toMatchObject({
      error_type: "permission_denied",
      message: expect.stringContaining("this client cannot ask the user") as string,
    });
  });
});
