import { once } from "node:events";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { outgoing, type Outgoing } from "../../src/protocol/outgoing.ts";
import { StdinWriter } from "../../src/upstream/stdin-writer.ts";

/** A pipe whose reader accepts one write at a time, when the test tells it to. */
class SlowPipe extends Writable {
  readonly writes: string[] = [];
  #finishWrite: ((error?: Error) => void) | undefined;

  override _write(chunk: Buffer, _encoding: BufferEncoding, callback: (error?: Error | null) => void): void {
    this.writes.push(chunk.toString());
    this.#finishWrite = callback;
    this.emit("written");
  }

  /** Resolves at the next write. */
  async nextWrite(): Promise<string | undefined> {
    await once(this, "written");
    return this.writes.at(-1);
  }

  /** The reader accepts the current write, or the pipe fails it. */
  finishWrite(error?: Error): void {
    this.#finishWrite?.(error);
  }
}

function newWriter(pipe: Writable): StdinWriter {
  return new StdinWriter(pipe, (error) => {
    throw error;
  });
}

function lines(...texts: readonly string[]): Outgoing[] {
  return texts.map((text) => outgoing(text));
}

function sendAll(writer: StdinWriter, all: readonly Outgoing[]): void {
  for (const line of all) writer.send(line);
}

describe("a stdin writer", () => {
  it("lines wait until the reader has accepted the last write", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const all = lines("first", "second €", "third");
    sendAll(writer, all.slice(0, 1));
    await pipe.nextWrite();
    sendAll(writer, all.slice(1));
    await new Promise(setImmediate);
    expect(all.map((line) => line.state)).toEqual(["written", "queued", "queued"]);
    expect(writer.queuedBytes).toBe("second €".length + 2 + "third".length);
    const next = pipe.nextWrite();
    pipe.finishWrite();
    expect(await next).toBe("second €\nthird\n");
    expect(pipe.writes).toHaveLength(2);
    expect(writer.queuedBytes).toBe(0);
  });

  it("a line that was cancelled while queued is not written", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const all = lines("first", "withdrawn", "withdrawn too", "last");
    sendAll(writer, all);
    for (const line of all.slice(1, 3)) writer.withdraw(line);
    expect(await pipe.nextWrite()).toBe("first\nlast\n");
    expect(all.map((line) => line.state)).toEqual(["written", "queued", "queued", "written"]);
    expect(writer.queuedBytes).toBe(0);
  });

  it("writing continues after everything queued was cancelled", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const withdrawn = outgoing("x".repeat(300_000));
    const last = outgoing("last");
    sendAll(writer, [withdrawn, last]);
    writer.withdraw(withdrawn);
    expect(writer.queuedBytes).toBe("last".length);
    expect(await pipe.nextWrite()).toBe("last\n");
    pipe.finishWrite();
    const another = outgoing("withdrawn as well");
    writer.send(another);
    writer.withdraw(another);
    await new Promise(setImmediate);
    writer.send(outgoing("after"));
    expect(await pipe.nextWrite()).toBe("after\n");
  });
});

describe("the end of a stdin writer", () => {
  it("a line of the same turn is written before the pipe closes", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    writer.send(outgoing("last words"));
    const written = pipe.nextWrite();
    writer.end();
    expect(await written).toBe("last words\n");
    expect(pipe.writableEnded).toBe(true);
  });
});

describe("a stdin writer whose server has exited", () => {
  it("unwritten lines are returned in order", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const all = lines("written", "second", "withdrawn", "fourth");
    sendAll(writer, all.slice(0, 1));
    await pipe.nextWrite();
    sendAll(writer, all.slice(1));
    for (const line of all.slice(2, 3)) writer.withdraw(line);
    await new Promise(setImmediate);
    expect(writer.takeUnwritten()).toEqual([all[1], all[3]]);
    expect(writer.takeUnwritten()).toEqual([]);
    expect(writer.queuedBytes).toBe(0);
    expect(all.map((line) => line.state)).toEqual(["written", "queued", "queued", "queued"]);
  });

  it("a failed write stops the writer, and the remaining lines are returned", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const failed = once(pipe, "error");
    const first = outgoing("first");
    const second = outgoing("second");
    const third = outgoing("third");
    sendAll(writer, [first]);
    await pipe.nextWrite();
    writer.send(second);
    pipe.finishWrite(new Error("EPIPE"));
    await failed;
    writer.send(third);
    await new Promise(setImmediate);
    expect(pipe.writes).toEqual(["first\n"]);
    expect(writer.takeUnwritten()).toEqual([second, third]);
  });

  it("the pipe closes after the current write, and queued lines stay unwritten", async () => {
    const pipe = new SlowPipe();
    const writer = newWriter(pipe);
    const first = outgoing("first");
    const second = outgoing("second");
    writer.send(first);
    await pipe.nextWrite();
    writer.send(second);
    writer.end();
    const finished = once(pipe, "finish");
    pipe.finishWrite();
    await finished;
    expect(pipe.writes).toEqual(["first\n"]);
    expect(writer.takeUnwritten()).toEqual([second]);
  });
});
