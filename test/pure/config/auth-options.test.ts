import { appendFileSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { readSecretFile, rereadSecretFile } from "../../../src/config/secret-file.ts";
import { readCommandLine } from "../../../src/config/command-line.ts";
import { type Environment, loadConfig, type LoadResult } from "../../../src/config/load.ts";
import { TempDir } from "../../support/temp-dir.ts";

const TOKEN = "s3cret-Token.0123456789";
const OTHER = "other-Token.0123456789";

function load(argv: readonly string[], environment: Environment = {}, needsCommand = true): LoadResult {
  return loadConfig(readCommandLine(argv), environment, needsCommand);
}

async function loadFile(text: string | Buffer): Promise<LoadResult> {
  await using directory = await TempDir.create();
  const path = directory.file("tokens");
  await writeFile(path, text);
  const result = load(["--auth-token-file", path, "server"]);
  // A changed file is read in the same way.
  const { texts, problem } = await rereadSecretFile(path, "token");
  expect(texts ?? []).toEqual(result.config?.authTokens ?? []);
  expect(result.problems).toEqual(
    problem === undefined ? [] : [`--auth-token-file is "${path}": ${problem}; expected a file with one token a line`],
  );
  return result;
}

describe("AUTH_TOKEN_FILE", () => {
  it.each([
    ["several, empty lines and comments", `# rotated\n\n${TOKEN}\n  \n#${TOKEN}x\n${OTHER}\n`, [TOKEN, OTHER]],
    ["line ends of Windows, and a byte order mark", `\uFEFF${TOKEN}\r\n${OTHER}\r\n`, [TOKEN, OTHER]],
    ["white space around a token, and a token twice", ` ${TOKEN}\t\n${TOKEN}`, [TOKEN]],
    ["a # within a token", "to#ken-0123456789", ["to#ken-0123456789"]],
    ["a token of 16 characters", "0123456789abcdef", ["0123456789abcdef"]],
  ])("the file may have %s", async (_what, text, tokens) => {
    expect((await loadFile(text)).config).toMatchObject({ authTokens: tokens, authToken: undefined });
  });

  it.each([
    ["is empty", "", "it contains no token"],
    ["has comments only", "# none\n\n", "it contains no token"],
    ["has a line with a space in it", `${TOKEN}\n${TOKEN} ${TOKEN}\n`, "line 2 is not a token: expected visible ASCII characters"],
    ["is no text", Buffer.from([0, 1, 2, 255]), "line 1 is not a token: expected visible ASCII characters without spaces"],
    ["has a token of 15 characters", `${TOKEN}\n0123456789abcde\n`, "line 2 has fewer than 16 characters"],
    ["is large", "x".repeat(65_537), "it is larger than 65536 bytes"],
  ])("the file is rejected without showing its text if it %s", async (_what, text, problem) => {
    const { config, problems } = await loadFile(text);
    expect(config).toBeUndefined();
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(problems.join("\n")).not.toContain(TOKEN);
  });

  it("a file that is being written at the start is read until two reads are equal, or rejected", async () => {
    await using directory = await TempDir.create();
    const path = directory.file("tokens");
    writeFileSync(path, TOKEN);
    let left = 3;
    const append = (): void => (left-- > 0 ? appendFileSync(path, "x") : undefined);
    expect(readSecretFile(path, "token", append)).toEqual({ texts: [`${TOKEN}xxx`] });
    expect(readSecretFile(path, "token", () => appendFileSync(path, "x"))).toEqual({ problem: "it keeps changing" });
  });

  it("the file and AUTH_TOKEN exclude each other, wherever each is given", async () => {
    await using directory = await TempDir.create();
    const file = directory.file("tokens");
    await writeFile(file, TOKEN);
    expect(load(["--auth-token-file", file, "server"], { CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN }).problems).toEqual([
      "CLAW_MCP_STDIO_AUTH_TOKEN and --auth-token-file are both set; use only one of them",
    ]);
    expect(load(["--auth-token", TOKEN, "server"], { CLAW_MCP_STDIO_AUTH_TOKEN_FILE: file }).problems).toEqual([
      "--auth-token and CLAW_MCP_STDIO_AUTH_TOKEN_FILE are both set; use only one of them",
    ]);
    expect(load(["server"], { CLAW_MCP_STDIO_AUTH_TOKEN: "", CLAW_MCP_STDIO_AUTH_TOKEN_FILE: file }).config?.authTokens).toEqual([TOKEN]);
  });
});

describe("SESSION_KEY_FILE and SESSION_KEY", () => {
  const KEY = "0123456789abcdef".repeat(2);

  it.each([
    ["one key on each line", `# keys\n${KEY}a\n\n${KEY}b\n`, [`${KEY}a`, `${KEY}b`]],
    ["a key of 32 characters", KEY, [KEY]],
  ])("the file may have %s", async (_what, text, keys) => {
    await using directory = await TempDir.create();
    await writeFile(directory.file("keys"), text);
    expect(load(["--session-key-file", directory.file("keys"), "server"]).config).toMatchObject({ sessionKeys: keys });
  });

  it.each([
    ["is empty", "", "it contains no key"],
    ["has a key of 31 characters", KEY.slice(1), "line 1 has fewer than 32 characters"],
    ["separates keys by commas, like the variable", `${KEY},${KEY}`, "line 1 contains a comma: write each key on a line of its own"],
  ])("the file is rejected if it %s", async (_what, text, problem) => {
    await using directory = await TempDir.create();
    await writeFile(directory.file("keys"), text);
    const { problems } = load(["--session-key-file", directory.file("keys"), "server"]);
    expect(problems).toEqual([`--session-key-file is "${directory.file("keys")}": ${problem}; expected a file with one key a line`]);
  });

  it.each([
    [`${KEY},${KEY.slice(1)}`, "key 2 has fewer than 32 characters"],
    [`${KEY} ${KEY}`, "it contains other characters"],
    ["", "has no value"],
  ])("the keys %j are rejected without being shown", (text, reason) => {
    const { problems } = load(["--session-key", text, "server"]);
    expect(problems).toEqual([expect.stringContaining(reason)]);
    expect(problems.join("")).not.toContain(KEY);
  });
});
