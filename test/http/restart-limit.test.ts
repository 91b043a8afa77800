import { writeFile } from "node:fs/promises";
import { expect, it } from "vitest";
import { ChosenServer } from "../support/chosen-server.ts";
import { LANES, LaneClient, useLane } from "../support/lane-client.ts";
import { HttpBench } from "../support/http-bench.ts";
import { signalServer } from "../support/in-process-server.ts";
import { TempDir } from "../support/temp-dir.ts";
import { QUICK_RESTART } from "../support/fixture-server.ts";

const GIVEN_UP = "mcp server not restarted: restart limit reached";
/** The first pause is long enough for a request to arrive. */
const SLOW_RESTART = ["--restart-backoff-ms", "2000", "--restart-max-ms", "2000"];
const PATIENT = ["--hold-timeout-ms", "600000", "--request-timeout-ms", "600000", "--drain-timeout-ms", "600000"];

it("requests in flight at other clients' servers may finish", async () => {
  await using directory = await TempDir.create();
  const path = directory.file("go");
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...QUICK_RESTART, ...PATIENT, "--restart-limit", "2"] });
  const sharedPid = sidecar.childPid;
  const client = await LaneClient.connect(sidecar);
  const call = client.toolText("wait_for_file", { path });
  await sidecar.waitForLog(`waiting for ${path}`);
  await server.chooseExit(3);
  signalServer(sharedPid, "SIGKILL");
  await sidecar.waitForLog("stopping");
  await writeFile(path, "");
  expect(await call).toBe("the file is there");
  expect(await sidecar.ended).toBe(1);
});

it.each(LANES)("requests held for a %s server are answered at once", async (kind) => {
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...SLOW_RESTART, ...PATIENT, "--restart-limit", "1"] });
  const { client, childPid, waitForLog } = await useLane(sidecar, kind);
  await server.chooseExit(3);
  signalServer(childPid, "SIGKILL");
  await waitForLog("mcp server exited");
  const { error } = await client.callTool("echo");
  expect(error?.data).toMatchObject({ code: "UPSTREAM_FAILED", sent: false, exitCode: 3 });
  await waitForLog(GIVEN_UP);
});

it("a private server that reaches the limit ends its own sessions only", async () => {
  await using server = await ChosenServer.create();
  await using sidecar = await HttpBench.start({ command: server.command, flags: [...QUICK_RESTART, "--restart-limit", "2"] });
  const { client, childPid, waitForLog } = await useLane(sidecar, "private");
  const shared = await sidecar.client();
  using stream = await client.openStream();
  await server.chooseExit(3);
  signalServer(childPid, "SIGKILL");
  expect(await waitForLog(GIVEN_UP)).toMatchObject({ level: "error", restarts: 2 });
  expect(await stream.rest()).toEqual([]);
  expect((await client.callTool("echo")).status).toBe(404);
  expect(await shared.toolText("echo", { text: "on" })).toBe("on");
  await server.chooseMode("normal");
  expect(await (await LaneClient.connect(sidecar)).toolText("echo", { text: "anew" })).toBe("anew");
  expect(await sidecar.stop()).toBe(0);
});
