import { expect, it } from "vitest";
import { Supervised } from "../support/supervised.ts";

const RESULT = '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}';
/** Completes the handshake, and sends a last message when it is terminated. */
const TALKS_AT_ITS_END = `
  trap 'echo "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":\\"late\\",\\"method\\":\\"roots/list\\"}"; sleep 0.3; exit 0' TERM
  read initialize
  echo '{"jsonrpc":"2.0","id":0,"result":${RESULT}}'
  echo '{"jsonrpc":"2.0","method":"notifications/early"}'
  while :; do sleep 0.05; done
`;

it("messages of an unresponsive server are dropped once its restart begins", async () => {
  await using supervised = new Supervised("sh", ["-c", TALKS_AT_ITS_END], 1);
  await supervised.nextReady();
  await expect.poll(() => supervised.messages).not.toEqual([]);
  supervised.supervisor.restart("hung", "hung: for a test");
  await supervised.nextReady();
  expect(supervised.exits).toMatchObject([{ generation: 1, kind: "hung", reason: "hung: for a test" }]);
  expect(supervised.supervisor.status()).toMatchObject({ generation: 2, lastExit: { kind: "hung", exitCode: 0 } });
  expect([...new Set(supervised.messages)]).toEqual(['{"jsonrpc":"2.0","method":"notifications/early"}']);
});

it("messages are dropped after the exit of the process that started the server", async () => {
  await using supervised = new Supervised("sh", ["-c", `exec 3<&0; sh -c "$0" <&3 & wait`, TALKS_AT_ITS_END], 1);
  await supervised.nextReady();
  process.kill(supervised.supervisor.status().pid ?? 0, "SIGKILL");
  await supervised.nextReady();
  expect(supervised.exits).toMatchObject([{ generation: 1, kind: "signal", signal: "SIGKILL" }]);
  expect([...new Set(supervised.messages)]).toEqual(['{"jsonrpc":"2.0","method":"notifications/early"}']);
});
