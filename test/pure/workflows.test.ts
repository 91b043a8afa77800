import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { TempDir } from "../support/temp-dir.ts";

// It imports JSON without an import attribute, which only bundlers accept.
registerHooks({
  load: (url, context, next) => next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context),
});
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import("@actions/workflow-parser");

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly uses?: string;
  readonly steps?: readonly { readonly run?: string }[];
}

const ROOT = new URL("../../", import.meta.url);
const FOLDER = new URL(".github/workflows/", ROOT);
const texts = new Map(readdirSync(FOLDER).map((name) => [name, readFileSync(new URL(name, FOLDER), "utf8")]));
const release = jobsOf("release.yml");

function jobsOf(name: string): Readonly<Record<string, Job>> {
  return (parse(texts.get(name) ?? "") as { readonly jobs: Readonly<Record<string, Job>> }).jobs;
}

function commandOf(job: string, part: string): string {
  return release[job]?.steps?.find(({ run }) => run?.includes(part))?.run ?? "exit 9";
}

describe.each([...texts])("the workflow %s", (name, text) => {
  it("GitHub's own parser accepts the workflow, and a shell each of its commands", async () => {
    const { context, value } = parseWorkflow({ name, content: text }, new NoOperationTraceWriter());
    expect(context.errors.getErrors()).toEqual([]);
    if (value === undefined) throw new Error(`${name} is empty`);
    expect((await convertWorkflowTemplate(context, value)).errors ?? []).toEqual([]);
    const commands = Object.values(jobsOf(name)).flatMap(({ steps = [] }) => steps.flatMap(({ run = [] }) => run));
    for (const run of commands) execFileSync("bash", ["-n", "-c", run]);
    expect(commands.filter((run) => run.includes("${{"))).toEqual([]);
  });

  it("the workflow uses no stored secret, and pins each action by commit", () => {
    expect(text).not.toMatch(/\bsecrets\b/);
    for (const [, action] of text.matchAll(/\buses: (?!\.\/)(.*)$/gm))
      expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });
});

describe("the release", () => {
  it("the release publishes only after checks and tests", () => {
    expect(release["test"]).toMatchObject({ needs: "check", uses: "./.github/workflows/test.yml" });
    const publishing = Object.values(release).filter(({ permissions = {} }) => Object.values(permissions).includes("write"));
    expect(publishing.map(({ needs }) => needs)).toEqual([
      ["check", "test"],
      ["check", "test"],
    ]);
    expect(jobsOf("test.yml")["test"]?.steps?.map(({ run }) => run)).toContain(".ci/run");
  });

  it("a tag is accepted only with the package's version and a dated section in the changelog", async () => {
    const check = commandOf("check", "CHANGELOG.md");
    await using folder = await TempDir.create();
    const errorFor = (tag: string, version: string, changelog: string): string => {
      writeFileSync(folder.file("package.json"), JSON.stringify({ version, type: "module" }));
      writeFileSync(folder.file("CHANGELOG.md"), changelog);
      const env = { ...process.env, GITHUB_REF_NAME: tag, GITHUB_OUTPUT: folder.file("output") };
      const { status, stdout } = spawnSync("bash", ["-e", "-c", check], { cwd: folder.path, env, encoding: "utf8" });
      return status === 0 ? "" : stdout.trim();
    };
    expect(errorFor("v1.2.3", "1.2.3", "# Changelog\n\n## 1.2.3 - 2026-01-31\n")).toBe("");
    expect(readFileSync(folder.file("output"), "utf8")).toBe("version=1.2.3\n");
    expect(errorFor("v1.2.4", "1.2.3", "## 1.2.4\n\n## 1.2.3\n")).toBe("::error::tag v1.2.4, but package.json says 1.2.3");
    expect(errorFor("v1.2.3", "1.2.3", "## 1.2.30 - 2026-01-31\n\n## 1x2x3 - 2026-01-31\n\n## 1.2.3\n")).toBe(
      "::error::no ## 1.2.3 with a date in CHANGELOG.md",
    );
  });

  it("a prerelease does not move the tag latest of npm", () => {
    const argumentsOf = (tag: string): string =>
      execFileSync("bash", ["-e", "-c", `npm() { echo "$*"; }\n${commandOf("package", "npm publish")}`], {
        env: { ...process.env, GITHUB_REF_NAME: tag },
        encoding: "utf8",
      });
    expect(argumentsOf("v1.2.3")).toBe("publish --access public --provenance\n");
    expect(argumentsOf("v1.2.3-rc.1")).toBe("publish --access public --provenance --tag next\n");
  });
});
