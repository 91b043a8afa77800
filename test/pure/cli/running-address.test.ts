import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { runningAddress } from "../../../src/cli/healthcheck.ts";
import { TempDir } from "../../support/temp-dir.ts";

const CONTAINER = "pid:[4026532500]";
const MACHINE = "pid:[4026531836]";

interface Process {
  readonly pid: number;
  readonly words?: readonly string[];
  readonly environ?: string;
  /** Its lines in /proc/net/tcp and tcp6: local address, and state. */
  readonly tcp?: string;
  readonly tcp6?: string;
}

/** Returns the address that is found in a /proc with these processes, each of which listens at 127.0.0.1:8080 unless it says otherwise. */
async function find(
  processes: readonly Process[],
  environment: Readonly<Record<string, string>> = {},
  namespace = CONTAINER,
): Promise<ReturnType<typeof runningAddress>> {
  await using root = await TempDir.create();
  const script = root.file("main.mjs");
  writeFileSync(script, "");
  symlinkSync(script, root.file("link"));
  mkdirSync(root.file("proc/self/ns"), { recursive: true });
  symlinkSync(namespace, root.file("proc/self/ns/pid"));
  for (const { pid, words = ["main.mjs"], environ = "", tcp6, tcp = tcp6 === undefined ? "0100007F:1F90 0A" : "" } of processes) {
    const file = (name: string): string => root.file(`proc/${pid}/${name}`);
    for (const folder of ["fd", "net"]) mkdirSync(file(folder), { recursive: true });
    writeFileSync(file("cmdline"), ["node", ...words, ""].join("\0"));
    writeFileSync(file("environ"), `A=1\0${environ}\0`);
    // The start is the 22nd field; the name may contain spaces and parentheses.
    writeFileSync(file("stat"), `${pid} (no) de) ${"0 ".repeat(19)}${pid} 0`);
    symlinkSync(root.path, file("cwd"));
    for (const [family, entry] of Object.entries({ tcp, tcp6: tcp6 ?? "" })) {
      const [local = "", state = ""] = entry.split(" ");
      writeFileSync(file(`net/${family}`), `  sl  local_address rem_address   st\n   0: ${local} 0:0 ${state} 0 0 0 0 0 77${pid}\n`);
    }
    symlinkSync(`socket:[77${pid}]`, file("fd/19"));
  }
  return runningAddress(script, environment, root.path);
}

describe("the address of the sidecar in the same container", () => {
  it.each<[what: string, process: Partial<Process>, host: string | undefined]>([
    ["at an address", { tcp: "0200007F:1F90 0A" }, "127.0.0.2"],
    ["at all interfaces", { tcp: "00000000:1F90 0A" }, undefined],
    ["at all interfaces of IPv6", { tcp6: `${"0".repeat(32)}:1F90 0A` }, undefined],
    ["at an address of IPv6", { tcp6: `${"0".repeat(24)}01000000:1F90 0A` }, "0000:0000:0000:0000:0000:0000:0000:0001"],
    ["that was started by a symbolic link", { words: ["link"] }, "127.0.0.1"],
    ["that was started after a flag with a value", { words: ["--import", "x.mjs", "main.mjs"] }, "127.0.0.1"],
    ["that was started without the ending of its script", { words: ["main"] }, "127.0.0.1"],
  ])("a sidecar %s is found", async (_what, process, host) => {
    expect(await find([{ pid: 9, ...process }])).toEqual({ host, port: 8080 });
  });

  it("nothing is found outside containers, without a sidecar, or if it does not listen", async () => {
    expect(await find([{ pid: 9 }], {}, MACHINE)).toBeUndefined();
    expect(await find([{ pid: 9, words: ["server.mjs"] }])).toBeUndefined();
    expect(await find([{ pid: 9, tcp: "0100007F:1F90 01" }])).toBeUndefined();
    expect(await find([])).toBeUndefined();
  });

  it("of two sidecars in a container the older one is found", async () => {
    const tcp = "0100007F:0050 0A";
    expect(await find([{ pid: 10, tcp }, { pid: 9 }])).toEqual({ host: "127.0.0.1", port: 8080 });
  });

  it.each(["CLAW_MCP_STDIO_PORT", "CLAW_MCP_STDIO_ADDR"])(
    "%s of the health check itself wins, unless the sidecar has the same",
    async (name) => {
      const sidecar = { pid: 9, environ: `${name}=:8080` };
      expect(await find([sidecar], { [name]: ":8081" })).toBeUndefined();
      expect(await find([sidecar], { [name]: ":8080" })).toEqual({ host: "127.0.0.1", port: 8080 });
    },
  );
});
