import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { describe, expect, it } from "vitest";
import { countMemoryKills, withHigherScore } from "../../../src/process/child.ts";
import { TempDir } from "../../support/temp-dir.ts";

const V1_CGROUPS = "12:cpu,cpuacct:/a\n4:memory:/pod:1/own\n0::/\n";

async function rootWith(files: Readonly<Record<string, string>>): Promise<TempDir> {
  const root = await TempDir.create();
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(root.file(path)), { recursive: true });
    await writeFile(root.file(path), text);
  }
  return root;
}

describe("the count of processes that the kernel killed for memory", () => {
  it.each([
    {
      system: "version 2",
      files: {
        "proc/self/cgroup": "0::/user.slice/own\n",
        "sys/fs/cgroup/user.slice/own/memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n",
      },
      count: 2,
    },
    {
      system: "version 2 in a namespace",
      files: { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom 3\noom_kill 0\n" },
      count: 0,
    },
    {
      system: "version 2 with the path of the host",
      files: { "proc/self/cgroup": "0::/docker/1\n", "sys/fs/cgroup/memory.events": "oom_kill 5\n" },
      count: 5,
    },
    {
      system: "version 1",
      files: {
        "proc/self/cgroup": V1_CGROUPS,
        "sys/fs/cgroup/memory/pod:1/own/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
        "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 99\n",
      },
      count: 7,
    },
    {
      system: "version 1 with the path of the host",
      files: { "proc/self/cgroup": V1_CGROUPS, "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 1\n" },
      count: 1,
    },
  ])("the count is read from $system", async ({ files, count }) => {
    await using root = await rootWith(files);
    expect(countMemoryKills(root.path)).toBe(count);
  });

  it.each([
    { what: "no /proc", files: {} },
    { what: "no counter", files: { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events": "oom 3\n" } },
    { what: "no readable file", files: { "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.events/file": "" } },
  ])("the count is unknown with $what", async ({ files }) => {
    await using root = await rootWith(files);
    expect(countMemoryKills(root.path)).toBeUndefined();
  });
});

describe("the score of a server's process", () => {
  it.each([
    { own: "0\n", raised: "1000" },
    { own: "-997\n", raised: "3" },
    { own: "900\n", raised: "1000" },
  ])("the process inherits a score above the sidecar's $own", async ({ own, raised }) => {
    await using root = await rootWith({ "proc/self/oom_score_adj": own });
    const score = (): number => Number.parseInt(readFileSync(root.file("proc/self/oom_score_adj"), "utf8"), 10);
    expect(withHigherScore(score, root.path)).toBe(Number(raised));
    expect(score()).toBe(Number(own));
  });

  it("the sidecar's own score is restored after a failed start", async () => {
    await using root = await rootWith({ "proc/self/oom_score_adj": "-5\n" });
    const fail = (): never => {
      throw new Error("EAGAIN");
    };
    expect(() => withHigherScore(fail, root.path)).toThrow("EAGAIN");
    expect(Number.parseInt(readFileSync(root.file("proc/self/oom_score_adj"), "utf8"), 10)).toBe(-5);
  });
});
