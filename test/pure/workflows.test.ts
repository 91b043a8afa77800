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

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Job {
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly uses?: string;
  readonly "timeout-minutes"?: number;
  readonly strategy?: { readonly matrix: Readonly<Record<string, unknown>> };
  readonly steps?: readonly Step[];
}

interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const ROOT = new URL("../../", import.meta.url);
const FOLDER = new URL(".github/workflows/", ROOT);
const texts = new Map(readdirSync(FOLDER).map((name) => [name, readFileSync(new URL(name, FOLDER), "utf8")]));
const release = read("release.yml");
const imageSteps = release.jobs["image"]?.steps ?? [];

function read(name: string): Workflow {
  return parse(texts.get(name) ?? "") as Workflow;
}

function stepThatUses(action: string): Step["with"] {
  return imageSteps.find(({ uses }) => uses?.startsWith(`${action}@`))?.with;
}

describe.each([...texts])("the workflow %s", (name, text) => {
  const jobs = Object.entries(read(name).jobs);
  const steps = jobs.flatMap(([, job]) => job.steps ?? []);

  it("GitHub's own parser accepts the workflow", async () => {
    const { context, value } = parseWorkflow({ name, content: text }, new NoOperationTraceWriter());
    expect(context.errors.getErrors()).toEqual([]);
    if (value === undefined) throw new Error(`${name} is empty`);
    const template = await convertWorkflowTemplate(context, value);
    expect(template.errors ?? []).toEqual([]);
    expect(template.jobs.map(({ id }) => id.value)).toEqual(jobs.map(([id]) => id));
  });

  it("the workflow uses no stored secret, and pins each action by commit", () => {
    expect(text).not.toMatch(/\bsecrets\b/);
    const actions = text.matchAll(/\buses: (?!\.\/)(.*)$/gm).map(([, action]) => action);
    for (const action of actions) expect(action).toMatch(/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it("each job has a time limit, and only jobs that publish may write", () => {
    const own = jobs.filter(([, { uses }]) => uses === undefined);
    expect(own.filter(([, job]) => !((job["timeout-minutes"] ?? Infinity) <= 60))).toEqual([]);
    expect(["", "contents: read"]).toContain(flat(read(name).permissions));
  });

  it("a shell can parse each command, and none contains an expression of GitHub", () => {
    for (const { run = ":" } of steps) {
      execFileSync("bash", ["-n", "-c", run]);
      expect(run).not.toContain("${{");
    }
  });
});

describe("the release", () => {
  it("the release publishes only after checks and tests", () => {
    expect(release.jobs["test"]).toMatchObject({ needs: "check", uses: "./.github/workflows/test.yml" });
    const publishing = Object.values(release.jobs).filter(({ permissions = {} }) => Object.values(permissions).includes("write"));
    expect(publishing.map(({ needs }) => needs)).toEqual([
      ["check", "test"],
      ["check", "test"],
    ]);
    expect(read("test.yml").jobs["test"]?.steps?.map(({ run }) => run)).toContain(".ci/run");
  });

  it("the release is tested on the older versions of Node that the package accepts", () => {
    const { devDependencies, engines } = JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as {
      devDependencies: Readonly<Record<string, string>>;
      engines: { node: string };
    };
    const [, oldest = "unknown"] = /^\^(22\.\d+)\.0 /.exec(engines.node) ?? [];
    expect(devDependencies["@types/node"]).toMatch(new RegExp(`^${oldest}\\.`));
    expect(readFileSync(new URL("test/nodes.ts", ROOT), "utf8")).toContain(`"${oldest}.0"`);

    const { strategy, steps } = read("test.yml").jobs["nodes"] ?? {};
    expect(strategy?.matrix).toEqual({ node: [22, 24] });
    expect(steps?.at(-1)).toEqual({ run: 'npm run test:nodes -- "$NODE_UNDER_TEST"', env: { NODE_UNDER_TEST: "${{ matrix.node }}" } });
  });

  it("a tag is accepted only with the package's version and an entry in the changelog", async () => {
    const check = release.jobs["check"]?.steps?.find(({ run }) => run?.includes("CHANGELOG.md"))?.run ?? "exit 9";
    await using folder = await TempDir.create();
    const errorFor = (tag: string, version: string, changelog: string): string => {
      writeFileSync(folder.file("package.json"), JSON.stringify({ version, type: "module" }));
      writeFileSync(folder.file("CHANGELOG.md"), changelog);
      const env = { ...process.env, GITHUB_REF_NAME: tag, GITHUB_OUTPUT: folder.file("output") };
      const { status, stdout } = spawnSync("bash", ["-e", "-c", check], { cwd: folder.path, env, encoding: "utf8" });
      return status === 0 ? "" : stdout.trim();
    };
    expect(errorFor("v1.2.3", "1.2.3", "# Changelog\n\n## 1.2.3\n")).toBe("");
    expect(readFileSync(folder.file("output"), "utf8")).toBe("version=1.2.3\n");
    expect(errorFor("v1.2.4", "1.2.3", "## 1.2.4\n\n## 1.2.3\n")).toBe("::error::tag v1.2.4, but package.json says 1.2.3");
    expect(errorFor("v1.2.3", "1.2.3", "## 1.2.30\n\n## 1x2x3\n")).toBe("::error::no ## 1.2.3 in CHANGELOG.md");
    const written = readFileSync(new URL("CHANGELOG.md", ROOT), "utf8");
    const [, released = ""] = /^## (\d\S*)$/m.exec(written) ?? [];
    expect(errorFor(`v${released}`, released, written)).toBe("");
    expect(errorFor(`v${released}-dev`, `${released}-dev`, written)).toContain(`no ## ${released}-dev`);
  });

  it("a commit is accepted only if it is on the main branch", async () => {
    await using folder = await TempDir.create();
    const check = release.jobs["check"]?.steps?.find(({ run }) => run?.includes("merge-base"))?.run ?? "exit 9";
    const as = "-c user.name=nobody -c user.email=nobody@localhost";
    const inRepository = (script: string): number | null =>
      spawnSync("bash", ["-e", "-c", script], { cwd: folder.path, stdio: "pipe" }).status;
    expect(
      inRepository(`git init --quiet; git ${as} commit --quiet --allow-empty --message=one; git update-ref refs/remotes/origin/main HEAD`),
    ).toBe(0);
    expect(inRepository(check)).toBe(0);
    expect(inRepository(`git ${as} commit --quiet --allow-empty --message=two`)).toBe(0);
    expect(inRepository(check)).toBe(1);
  });

  it("a prerelease does not move the tag latest of npm", () => {
    const publish = release.jobs["package"]?.steps?.find(({ run }) => run?.includes("npm publish"))?.run ?? "exit 9";
    const argumentsOf = (tag: string): string =>
      execFileSync("bash", ["-e", "-c", `npm() { echo "$*"; }\n${publish}`], {
        env: { ...process.env, GITHUB_REF_NAME: tag },
        encoding: "utf8",
      });
    expect(argumentsOf("v1.2.3")).toBe("publish --access public --provenance\n");
    expect(argumentsOf("v1.2.3-rc.1")).toBe("publish --access public --provenance --tag next\n");
  });

  it("both targets are built for both processors, with SBOM and provenance", () => {
    const push = stepThatUses("docker/build-push-action");
    expect(push).toMatchObject({ platforms: "linux/amd64,linux/arm64", push: true, sbom: true, provenance: "mode=max" });
    const dockerfile = readFileSync(new URL("Dockerfile", ROOT), "utf8");
    for (const [, argument] of String(push?.["build-args"]).matchAll(/^(\w+)=/gm))
      expect(dockerfile).toMatch(new RegExp(`^ARG ${argument}=\\S+$`, "m"));
    const targets = [...(texts.get("release.yml") ?? "").matchAll(/- target: (\w+)$/gm)].map(([, target]) => target);
    expect(targets).toEqual(["sidecar", "uv"]);
    for (const target of targets) expect(dockerfile).toMatch(new RegExp(`^FROM \\S+ AS ${target}$`, "m"));
    expect(stepThatUses("actions/attest")).toMatchObject({ "subject-digest": "${{ steps.push.outputs.digest }}" });
  });

  it("the released image checks its health twice a second until it is ready", async () => {
    await using folder = await TempDir.create();
    const dockerfile = readFileSync(new URL("Dockerfile", ROOT), "utf8");
    writeFileSync(folder.file("Dockerfile"), dockerfile);
    const edit = imageSteps.find(({ run }) => run?.includes("--start-interval"))?.run ?? "exit 9";
    execFileSync("bash", ["-e", "-c", edit], { cwd: folder.path });
    const changed = readFileSync(folder.file("Dockerfile"), "utf8");
    expect(changed.replace(" --start-interval=500ms", "")).toBe(dockerfile);
    expect(changed).toMatch(/^HEALTHCHECK --start-interval=500ms --interval=10s /m);
  });

  it("the pinned base images are those of the Dockerfile", async () => {
    await using folder = await TempDir.create();
    const output = folder.file("output");
    const digest = `sha256:${"0".repeat(64)}`;
    // Replaces a registry, so that the test does not need one.
    const docker = `docker() { echo ${digest}; }\n`;
    const base = release.jobs["check"]?.steps?.find(({ run }) => run?.includes("imagetools"))?.run ?? "";
    execFileSync("bash", ["-e", "-c", docker + base], { cwd: ROOT, env: { ...process.env, GITHUB_OUTPUT: output } });
    expect(readFileSync(output, "utf8")).toMatch(new RegExp(`^node-image=node@${digest}\\nuv-image=\\S+/uv@${digest}\\n$`));
  });
});

function flat(permissions: Readonly<Record<string, string>>): string {
  return Object.entries(permissions)
    .map(([scope, right]) => `${scope}: ${right}`)
    .join(", ");
}
