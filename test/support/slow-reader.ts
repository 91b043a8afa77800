import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

export interface SlowReading {
  readonly stepBytes: number;
  readonly pauseMs: number;
}

/** Sends this, and reads the response with a pause after each step. @returns all that arrived until the server closed the connection. */
export async function readSlowly(origin: string, bytes: string, { stepBytes, pauseMs }: SlowReading): Promise<Buffer> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  await once(socket, "connect");
  socket.write(bytes);
  const chunks: Buffer[] = [];
  let step = 0;
  for await (const chunk of socket as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    step += chunk.length;
    if (step < stepBytes) continue;
    step = 0;
    await delay(pauseMs);
  }
  return Buffer.concat(chunks);
}
