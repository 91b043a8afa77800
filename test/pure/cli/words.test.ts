import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { splitWords } from "../../../src/cli/start/words.ts";

it.each(["npx -y some-mcp", "  node   server.js\t--x  ", `node "a b.js" 'c d' e\\ f`, `--name="x y" it\\'s "say \\"hi\\"" ''`, ""])(
  "the line %j is split as a shell does",
  (line) => {
    const script = `for word in ${line}; do printf '%s\\0' "$word"; done`;
    const { stdout } = spawnSync("sh", ["-c", script], { encoding: "utf8" });
    expect(splitWords(line)).toEqual(stdout.split("\0").slice(0, -1));
  },
);
