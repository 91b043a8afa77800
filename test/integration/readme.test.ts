import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { EXAMPLE, MAIN, Sidecar } from "../support/sidecar.ts";
import { TempDir } from "../support/temp-dir.ts";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { scripts: Record<string, string> };

function bash(
  args: readonly string[],
  options: { readonly cwd?: string } = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  return promisify(execFile)("bash", args, options);
}

function codeBlock(behind: string): string {
  const block = /```sh\n(.*?)```/s.exec(readme.slice(readme.indexOf(behind)))?.[1];
  if (block === undefined) throw new Error(`no code block behind ${behind}`);
  return block;
}

describe("README", () => {
  it("tries the bundled example with curl lines that print what it says", async () => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
    const script = codeBlock("<!-- executed by").replaceAll("localhost:8080", sidecar.origin.replace("http://", ""));
    const { stdout } = await bash(["-euo", "pipefail", "-c", script]);
    const said = /The last line prints `(.*)`/.exec(readme)?.[1];
    expect(said).toContain('"text":"5"');
    expect(stdout.trim().split("\n").at(-1)).toBe(said);
  });

  it("writes a descriptor of the bundled example, and finds no difference in it, until there is one", async () => {
    await using directory = await TempDir.create();
    const script = codeBlock("<!-- discover: executed by")
      .replaceAll("npx node dist/main.js", `'${process.execPath}' '${MAIN}'`)
      .replaceAll("examples/echo-server/server.js", `'${EXAMPLE}'`);
    const run = (text: string): ReturnType<typeof bash> => bash(["-euo", "pipefail", "-c", text], { cwd: directory.path });
    const { stdout, stderr } = await run(script);
    const path = /writes `(.*?)`, at once/.exec(readme)?.[1] ?? "";
    expect({ stdout, stderr }).toEqual({ stdout: "", stderr: `2 tools, written to ${path}\n2 tools, as in ${path}\n` });

    const snapshot = readFileSync(directory.file(path), "utf8");
    writeFileSync(directory.file(path), snapshot.replace("Adds two numbers.", "Adds numbers."));
    const check = script.split("\n").find((line) => line.includes("--check")) ?? "";
    await expect(run(check)).rejects.toMatchObject({ code: 3, stdout: expect.stringMatching(/^~ add: description: /) as string });
  });

  it("names npm scripts that exist, and starts the example that the test above uses", () => {
    expect(readme).toContain("npm ci && npm start\n");
    expect(readme).toContain("npm ci && npm test\n");
    expect(manifest.scripts["start"]).toContain("node dist/main.js --addr 127.0.0.1:8080 -- node examples/echo-server/server.js");
    expect(Object.keys(manifest.scripts)).toEqual(expect.arrayContaining(["start", "test", "build"]));
  });

  it("links only to files that exist", () => {
    const links = [...readme.matchAll(/\]\(([^)#:]+)\)/g)].map((match) => match[1] ?? "");
    expect(links.length).toBeGreaterThan(3);
    expect(links.filter((link) => !existsSync(new URL(`../../${link}`, import.meta.url)))).toEqual([]);
  });
});
