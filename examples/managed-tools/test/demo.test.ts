import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { descriptorPath, PodFolder, TRADING_DESCRIPTOR, TRADING_POD } from "./pod-folder.ts";

const MAIN = fileURLToPath(new URL("../src/main.ts", import.meta.url));
const README = fileURLToPath(new URL("../README.md", import.meta.url));
const run = promisify(execFile);

describe("the command line", () => {
  it("demo goes from an empty folder to an answer, as the README shows", async () => {
    const { stdout } = await run(process.execPath, [MAIN, "demo"]);
    const varying = (text: string): string => text.replaceAll(/\d+ ms|:\d{4,}/g, "N");
    const [, shown = ""] = /```text\n(sidecar [\s\S]*?)```/.exec(readFileSync(README, "utf8")) ?? [];
    expect(varying(stdout)).toBe(varying(shown));
  });

  it("the demo fails with the reason if a sidecar does not answer", async () => {
    await expect(run(process.execPath, [MAIN, "demo", "--sidecar", "echo=http://127.0.0.1:1/mcp"])).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^The tools of echo cannot be read\. discover failed: http:\/\/127\.0\.0\.1:1\/mcp: .*\n$/) as string,
    });
  });

  it.each([
    ["exits", "process.stderr.write('no key for the weather\\n'); process.exit(3)", "exited with code 3 before it answered initialize"],
    ["is not ready", "process.stderr.write('still loading\\n'); setInterval(() => undefined, 1000)", "it is not ready after 20 s"],
  ])("the demo ends within 30 s with the server's own message if a server %s", { timeout: 60_000 }, async (_, server, reason) => {
    const service = { "x-claw": { "mcp-stdio": { command: "node", args: ["-e", server] } } };
    using folder = new PodFolder(JSON.stringify({ services: { weather: service } }), {
      "conversation.json": { question: "?", calls: [], answer: "!" },
    });
    const startedAtMs = Date.now();
    const [said] = /(?<=write\(')[a-z ]+/.exec(server) ?? [];
    const stderr = `The server of weather cannot start: ${reason}\n${said}\n`;
    await expect(run(process.execPath, [MAIN, "demo", `${folder.path}/claw-pod.yml`])).rejects.toMatchObject({
      code: 1,
      stdout: "",
      stderr,
    });
    expect(Date.now() - startedAtMs).toBeLessThan(30_000);
  });

  it("the pod of the README compiles, and the proxy shows its agents", async () => {
    const readme = readFileSync(README, "utf8");
    const exampleOf = (name: string): string => {
      const [, block = ""] = new RegExp(`<!-- example: ${name} -->\\s*\`{3}\\w+\\n([\\s\\S]*?)\`{3}`).exec(readme) ?? [];
      return block.replaceAll(/^ {3}/gm, "");
    };
    const echo = { version: 2, mcp: { transport: "streamable_http", path: "/mcp" }, tools: [{ name: "add" }] };
    using folder = new PodFolder(exampleOf("my-pod.yml"), { "weather.json": exampleOf("weather.json"), [descriptorPath("echo")]: echo });
    const env = { PATH: process.env["PATH"], WEATHER_TOKEN: "t" };
    const { stdout } = await run(process.execPath, [MAIN, "compile", `${folder.path}/claw-pod.yml`], { env });
    expect(stdout).toBe("bot: echo.add, weather.forecast\n");
    const proxy = spawn(process.execPath, [MAIN, "mediate", `${folder.path}/.claw-runtime`, "--port", "0"], {
      env: { ...env, MODEL_URL: "http://127.0.0.1:1" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const [line] = (await once(createInterface({ input: proxy.stderr }), "line")) as [string];
    expect(line).toMatch(/^listening at http:\/\/127\.0\.0\.1:\d+\/AGENT, with the agents bot$/);
    proxy.kill();
    expect(await once(proxy, "exit")).toEqual([0, null]);
  });

  it("compile writes nothing if there are problems, and names them", async () => {
    using folder = new PodFolder(TRADING_POD, { [descriptorPath("trading-api")]: TRADING_DESCRIPTOR });
    const pod = `${folder.path}/claw-pod.yml`;
    const env = { PATH: process.env["PATH"] };
    await expect(run(process.execPath, [MAIN, "compile", pod], { env })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/trading-api\.claw-describe\.json:\d+: the variable TRADING_API_TOKEN is not set\n$/) as string,
    });
    const { stdout } = await run(process.execPath, [MAIN, "compile", pod], { env: { ...env, TRADING_API_TOKEN: "t" } });
    expect(stdout).toBe("analyst: trading-api.get_market_context\nexecutor: trading-api.execute_trade, trading-api.get_market_context\n");
  });

  it.each([
    [["compile"], /^Usage:/],
    [["compile", "pod.yml", "--at", "echo"], /^--at echo must be SERVICE=URL, with a URL like/],
    [["mediate", "."], /^MODEL_URL is not set/],
    [["mediate", ".", "--port", "http"], /^context has no agents: run compile/],
    [["compile", "pod.yml", "--at", "echo=http://user:pass@host"], /^--at echo=.* must be SERVICE=URL/],
  ])("%j is rejected", async (args, message) => {
    const env = {
      PATH: process.env["PATH"],
      ...(args.includes("--port") || args.includes("--host") ? { MODEL_URL: "http://127.0.0.1:1" } : {}),
    };
    await expect(run(process.execPath, [MAIN, ...args], { env })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringMatching(message) as string,
    });
  });
});
