import { expect } from "vitest";
import { send } from "../support/http-client.ts";
import { findSecrets, TELLTALE } from "../support/planted-secrets.ts";
import { runMain, Sidecar } from "../support/sidecar.ts";
import { proves } from "./proves.ts";

const TOKEN = "own-t0ken-0123456789";
const ENVIRONMENT = { MY_API_KEY: "sk-0123456789abcdef", DB_PASSWORD: 'pass"word\\with €uro & space' };
const PLANTED = [TOKEN, ...Object.values(ENVIRONMENT)];
const AUTHORIZED = { Authorization: `Bearer ${TOKEN}` };

proves("secrets are masked", async () => {
  const env = { ...ENVIRONMENT, PLANTED: JSON.stringify(PLANTED), CLAW_MCP_STDIO_AUTH_TOKEN: TOKEN };
  const flags = ["--log-level", "debug", "--restart-backoff-ms", "1", "--restart-max-ms", "1000", "--crash-loop-exits", "1"];
  await using sidecar = await Sidecar.start({ command: TELLTALE, env, flags });
  const client = await sidecar.client({ token: TOKEN });
  await client.request("x-test/tell");
  const said = [JSON.stringify(await client.request("x-test/exit"))];
  await sidecar.waitForLog("mcp server failed: crash loop");
  said.push(JSON.stringify(await client.request("x-test/refused")));
  for (const path of ["/readyz", "/status", "/metrics", "/nothing-here"]) {
    said.push((await send(`${sidecar.origin}${path}`, { method: "GET", headers: AUTHORIZED })).body);
  }
  await sidecar.stop();
  const checked = await runMain(["--check-config", "--", "true", `--key=${ENVIRONMENT.MY_API_KEY}`], env);
  said.push(checked.stdout);
  for (const shown of ["UPSTREAM_EXITED", "UPSTREAM_FAILED", "could not log in with ***, giving up"])
    expect(said.join("\n")).toContain(shown);
  const log = sidecar.transcript();
  for (const shown of ["could not log in with ***, giving up", "hello, *** is my key"]) expect(log).toContain(shown);
  expect({ said: findSecrets(said.join("\n"), PLANTED), log: findSecrets(log, PLANTED) }).toEqual({ said: [], log: [] });
});
