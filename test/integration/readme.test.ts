import { execFile } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { EXAMPLE, Sidecar } from "../support/sidecar.ts";

const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const manifest = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { scripts: Record<string, string> };

function codeBlock(behind: string): string {
  const block = /```sh\n(.*?)```/s.exec(readme.slice(readme.indexOf(behind)))?.[1];
  if (block === undefined) throw new Error(`no code block behind ${behind}`);
  return block;
}

describe("README", () => {
  it("tries the bundled example with curl lines that print what it says", async () => {
    await using sidecar = await Sidecar.start({ command: [process.execPath, EXAMPLE] });
    const script = codeBlock("<!-- executed by").replaceAll("localhost:8080", sidecar.origin.replace("http://", ""));
    const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", script]);
    const said = /The last line prints `(.*)`/.exec(readme)?.[1];
    expect(said).toContain('"text":"5"');
    expect(stdout.trim().split("\n").at(-1)).toBe(said);
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
