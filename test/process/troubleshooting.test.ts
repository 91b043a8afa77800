import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { readDocument } from "../support/markdown.ts";
import { HttpBench } from "../support/http-bench.ts";
import { EXAMPLE, MAIN } from "../support/sidecar.ts";

const BLOCKS = [...readDocument("docs/TROUBLESHOOTING.md").text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, script = ""]) => script);

/** Part of the output of each block, in their order. */
const OUTPUTS = ['"state":"ready"', '"name": "echo"', "CLAW_MCP_STDIO_COMMAND = npx  (command line)", '"name": "echo"'];

async function run(block: string, address: string): Promise<string> {
  const script = block
    .replaceAll("localhost:8080", address)
    .replaceAll(/^claw-mcp-stdio/gm, `'${process.execPath}' '${MAIN}'`)
    .replaceAll("node examples/echo-server/server.js", `'${process.execPath}' '${EXAMPLE}'`);
  const { stdout } = await promisify(execFile)("bash", ["-euo", "pipefail", "-c", script]);
  return stdout;
}

it("the commands print the output that the document shows", async () => {
  await using sidecar = await HttpBench.start({ command: [process.execPath, EXAMPLE] });
  const outputs: string[] = [];
  for (const block of BLOCKS) outputs.push(await run(block, sidecar.origin.replace("http://", "")));
  expect(outputs).toEqual(OUTPUTS.map((text): unknown => expect.stringContaining(text)));
});
