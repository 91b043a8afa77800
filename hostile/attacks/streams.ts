// Long lines of the server that clients read from an event stream, in which a carriage return ends a line too.

import type { Attack } from "../attack.ts";
import type { Attacker } from "../attacker.ts";
import { within } from "../bounded.ts";
import type { Shape } from "../shapes.ts";

const MIB = 1024 * 1024;
const LINE_BYTES = 20 * MIB;
const LINES: readonly Shape[] = ["plain", "line-breaks", "non-ascii"];
const READ_LIMIT_MS = 20_000;

function stream(name: string, run: (attacker: Attacker) => Promise<void>): Attack {
  return {
    name: `line: 20 MiB each of ${LINES.join(", ")} ${name}`,
    run: async ({ attacker }) => {
      await attacker.open();
      await run(attacker);
    },
  };
}

const progress = stream("as progress of a call", async (attacker) => {
  for (const shape of LINES) {
    const args = { trick: "line", shape, as: "progress", bytes: LINE_BYTES };
    const reply = await attacker.request("tools/call", { name: "trick", arguments: args, _meta: { progressToken: shape } });
    attacker.replies.add(`${shape}: ${inMib(Buffer.byteLength(reply?.body ?? ""))} read`);
  }
});

/** Uses a private server, because log messages of a shared server are dropped if they may be about several clients. */
const messages = stream("as log message on a GET stream", async (attacker) => {
  await attacker.open("2025-11-25", { sampling: {} });
  await attacker.request("logging/setLevel", { level: "debug" });
  const socket = await attacker.connectUnread();
  if (socket === undefined) return;
  socket.write(attacker.streamHead());
  const chunks = socket.iterator() as AsyncIterator<Buffer, undefined>;
  let received = 0;
  for (const [index, shape] of LINES.entries()) {
    await attacker.callTool("trick", { trick: "late_line", shape, as: "notification", bytes: LINE_BYTES });
    // The next call follows after the whole line. Otherwise, the message could be attributed to that call.
    while (received < (index + 1) * LINE_BYTES) {
      const chunk = await within(chunks.next(), READ_LIMIT_MS).catch(() => undefined);
      if (chunk?.value === undefined) break;
      received += chunk.value.length;
    }
    attacker.replies.add(`${shape}: ${inMib(received)} read in all`);
  }
});

function inMib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

export const STREAM_ATTACKS: readonly Attack[] = [progress, messages];
