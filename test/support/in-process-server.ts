import { EventEmitter } from "node:events";
import * as childProcess from "node:child_process";
import * as fs from "node:fs";
import { createRequire } from "node:module";
import * as readline from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import { type ChildCommand, type ProcessExit, type ProcessGroup, startProcess } from "../../src/process/child.ts";

/** Above every process id of Linux, so that no real process has one of them. */
export const FIRST_PID = 5_000_000;
/** As large as a pipe of Linux. */
const PIPE_BYTES = 64 * 1024;
/** Node's modules that a server uses as streams or processes, and that it gets in another form. */
const REPLACED = new Set(["child_process", "fs", "process", "readline"]);

type Signal = NodeJS.Signals;
type Run = (...context: readonly unknown[]) => void;

const running = new Map<number, InProcessServer>();
const programs = new Map<string, Run | undefined>();
let nextPid = FIRST_PID;

/** Returns the in-process server with this id, while it runs. */
export function inProcessServer(pid: number): InProcessServer | undefined {
  return running.get(pid);
}

/** Signals a server, in this process or a real one. */
export function signalServer(pid: number, signal: Signal): void {
  const server = running.get(pid);
  if (server === undefined) process.kill(pid, signal);
  else server.signal(signal);
}

/**
 * Runs a fixture in this process: its pipes are streams, its process id is invented, and its code gets a `process`, timers and files of its
 * own. Any other command becomes a real process, as does a script with packages, which would use the real `process`.
 */
export function startInProcess(command: ChildCommand): ProcessGroup {
  const [script = "", mode = ""] = command.args;
  // Its children are processes.
  if (mode.startsWith("grandchild")) return startProcess(command);
  const program = command.command === process.execPath && /\.[jt]s$/.test(script) ? programOf(script) : undefined;
  return program === undefined ? startProcess(command) : new InProcessServer(command, program);
}

/** Bundles a script once for each worker. Every start evaluates it anew, so no state is left of an earlier one. */
function programOf(script: string): Run | undefined {
  if (!programs.has(script)) programs.set(script, bundled(script));
  return programs.get(script);
}

function bundled(script: string): Run | undefined {
  if (script.includes("/node_modules/")) return undefined;
  const { outputFiles, metafile } = buildSync({
    entryPoints: [script],
    bundle: true,
    write: false,
    metafile: true,
    platform: "node",
    packages: "external",
    // A module with an `await` at its top level cannot be run in this form: the bundler rejects it.
    format: "cjs",
    target: "node22",
    define: { "import.meta.url": JSON.stringify(pathToFileURL(script).href) },
  });
  const imports = Object.values(metafile.inputs).flatMap((input) => input.imports);
  if (imports.some(({ external, path }) => external === true && !path.startsWith("node:"))) return undefined;
  const text = (outputFiles[0]?.text ?? "").replace(/^#!.*/, "");
  const parameters = ["require", "process", "setTimeout", "setInterval", "setImmediate", "clearTimeout", "clearInterval", "Atomics"];
  // oxlint-disable-next-line typescript/no-implied-eval -- the text is a fixture of this repository
  return new Function("exports", "module", ...parameters, `${text}\n//# sourceURL=${script}`) as Run;
}

/** A process of a server as streams and callbacks. Its group has no other member. */
export class InProcessServer implements ProcessGroup {
  readonly pid = nextPid++;
  readonly stdin: Writable;
  readonly stdout = new OutputPipe();
  readonly stderr = new OutputPipe();
  readonly exited: Promise<ProcessExit>;
  readonly #exit = Promise.withResolvers<ProcessExit>();
  readonly #events = new EventEmitter();
  /** The server's end of its stdin. */
  readonly #input: Readable;
  readonly #timers = new Set<NodeJS.Timeout>();
  /** What was written and not yet read. */
  readonly #pipe: Buffer[] = [];
  #pipeBytes = 0;
  #isInputOver = false;
  /** True if the server has closed its stdin. */
  #isInputClosed = false;
  #wantsMore = false;
  /** Called when the pipe has room again. */
  #takeMore: (() => void) | undefined;
  #hasEnded = false;
  /** Set by SIGSTOP, and by a wait that blocks the thread. Callbacks then wait in `#postponed`. */
  #stop: "signal" | "wait" | undefined;
  readonly #postponed: (() => void)[] = [];
  #exitCode: number | undefined;

  constructor(command: ChildCommand, program: Run) {
    this.exited = this.#exit.promise;
    this.#input = new Readable({ highWaterMark: PIPE_BYTES, read: () => this.#onRead() });
    this.#input.on("error", () => undefined);
    const emit = this.#input.emit.bind(this.#input);
    this.#input.emit = (name: string | symbol, ...args: unknown[]) => this.#guard(() => emit(name, ...args));
    this.#input.on("close", () => this.#exitWhenIdle());
    this.stdin = new Writable({
      highWaterMark: PIPE_BYTES,
      write: (chunk: Buffer, _encoding, done) => this.#deliver(chunk, done),
      final: (done) => {
        this.#isInputOver = true;
        this.#flow();
        done();
      },
    });
    running.set(this.pid, this);
    // A process starts after the one that has started it goes on.
    setImmediate(() => this.#later(() => this.#run(command, program)));
  }

  signal(name: Signal): boolean {
    if (this.#hasEnded) return false;
    if (name === "SIGSTOP") this.#stop = "signal";
    else if (name === "SIGCONT") this.#continue();
    else if (name !== "SIGKILL" && this.#stop === "signal") this.#postponed.push(() => void this.signal(name));
    else if (name !== "SIGKILL" && this.#events.listenerCount(name) > 0) this.#later(() => this.#events.emit(name, name));
    else this.#end({ exitCode: undefined, signal: name, spawnErrorCode: undefined });
    return true;
  }

  waitForEnd(): Promise<boolean> {
    return Promise.resolve(this.#hasEnded);
  }

  #run(command: ChildCommand, program: Run): void {
    const module = { exports: {} };
    const own = this.#process(command);
    const require = createRequire(String(command.args[0]));
    const replaced: Readonly<Record<string, unknown>> = {
      process: own,
      fs: this.#files(),
      readline: { ...readline, createInterface: (options: readline.ReadLineOptions) => this.#lines(options) },
      child_process: { ...childProcess, spawn: refuseSpawn, execFile: refuseSpawn },
    };
    const requireOwn = (name: string): unknown => {
      const plain = name.replace("node:", "");
      return REPLACED.has(plain) ? replaced[plain] : require(name);
    };
    const { setTimeout, setInterval, setImmediate } = this.#timerFunctions();
    const atomics = { wait: () => void (this.#stop = "wait") };
    this.#guard(() => {
      program(module.exports, module, requireOwn, own, setTimeout, setInterval, setImmediate, this.#clear, this.#clear, atomics);
      return true;
    });
  }

  #process({ args, env, cwd }: ChildCommand): object {
    const events = this.#events;
    const output = (pipe: OutputPipe): Writable =>
      new Writable({
        decodeStrings: true,
        write: (chunk: Buffer, _encoding, done) => {
          this.#print(pipe, chunk);
          done();
        },
      });
    const setExitCode = (code: number): number => (this.#exitCode = code);
    const own = {
      pid: this.pid,
      ppid: process.pid,
      env: { ...env },
      argv: [process.execPath, ...args],
      cwd: () => cwd ?? process.cwd(),
      exit: (code = this.#exitCode ?? 0) => this.#end({ exitCode: code, signal: undefined, spawnErrorCode: undefined }),
      set exitCode(code: number) {
        setExitCode(code);
      },
      kill: (pid: number, signal: Signal = "SIGTERM") => {
        signalServer(pid, signal);
        return true;
      },
      stdin: this.#input,
      stdout: output(this.stdout),
      stderr: output(this.stderr),
    };
    for (const name of ["on", "once", "off", "emit", "addListener", "removeListener", "listenerCount"] as const)
      Object.defineProperty(own, name, { value: events[name].bind(events) });
    return Object.setPrototypeOf(own, process) as object;
  }

  #files(): object {
    const pipes: Readonly<Record<number, OutputPipe>> = { 1: this.stdout, 2: this.stderr };
    return {
      ...fs,
      writeSync: (fd: number, data: string | Buffer, ...rest: never[]) => {
        const pipe = pipes[fd];
        if (pipe === undefined) return fs.writeSync(fd, data as string, ...rest);
        const bytes = Buffer.from(data);
        this.#print(pipe, bytes);
        return bytes.length;
      },
      closeSync: (fd: number) => {
        const pipe = pipes[fd];
        if (pipe !== undefined) pipe.close();
        else if (fd === 0) this.#isInputClosed = true;
        else fs.closeSync(fd);
      },
    };
  }

  /** The lines that were read at once are not handled after an exit. */
  #lines(options: readline.ReadLineOptions): readline.Interface {
    const lines = readline.createInterface(options);
    const emit = lines.emit.bind(lines) as (name: string, ...args: unknown[]) => boolean;
    lines.emit = (name: string | symbol, ...args: unknown[]) =>
      this.#stop === undefined && this.#guard(() => emit(name as string, ...args));
    return lines;
  }

  #timerFunctions() {
    const track = (timer: NodeJS.Timeout): NodeJS.Timeout => {
      this.#timers.add(timer);
      return timer;
    };
    return {
      setTimeout: (act: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
        const timer = track(
          setTimeout(() => {
            this.#timers.delete(timer);
            this.#later(() => act(...args));
            this.#exitWhenIdle();
          }, ms),
        );
        return timer;
      },
      setInterval: (act: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) =>
        track(setInterval(() => this.#later(() => act(...args)), ms)),
      setImmediate: (act: (...args: unknown[]) => void, ...args: unknown[]) => setImmediate(() => this.#later(() => act(...args))),
    };
  }

  readonly #clear = (timer: NodeJS.Timeout | undefined): void => {
    if (timer === undefined) return;
    clearTimeout(timer);
    this.#timers.delete(timer);
    this.#exitWhenIdle();
  };

  /** The pipe takes a chunk while it has room, whether or not the server reads. */
  #deliver(chunk: Buffer, done: (error?: Error) => void): void {
    if (this.#isInputClosed) return done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" }));
    this.#pipe.push(chunk);
    this.#pipeBytes += chunk.length;
    if (this.#pipeBytes <= PIPE_BYTES) done();
    else this.#takeMore = done;
    this.#flow();
  }

  #onRead(): void {
    this.#wantsMore = true;
    setImmediate(() => this.#flow());
  }

  /** Moves the content of the pipe to the server while it runs and reads. */
  #flow(): void {
    while (this.#wantsMore && this.#stop === undefined && !this.#hasEnded) {
      const first = this.#pipe.shift();
      const chunk = first?.subarray(0, PIPE_BYTES);
      if (first !== undefined && first.length > PIPE_BYTES) this.#pipe.unshift(first.subarray(PIPE_BYTES));
      if (chunk === undefined) {
        if (this.#isInputOver) this.#input.push(null);
        this.#wantsMore &&= !this.#isInputOver;
        break;
      }
      this.#pipeBytes -= chunk.length;
      this.#wantsMore = this.#guard(() => this.#input.push(chunk));
    }
    if (this.#pipeBytes > PIPE_BYTES) return;
    const takeMore = this.#takeMore;
    this.#takeMore = undefined;
    takeMore?.();
  }

  #print(pipe: OutputPipe, bytes: Buffer): void {
    if (this.#hasEnded) return;
    pipe.accept(bytes);
  }

  /** Acts at once, or when the process continues. */
  #later(act: () => unknown): void {
    if (this.#stop !== undefined) this.#postponed.push(() => this.#later(act));
    else
      this.#guard(() => {
        act();
        return true;
      });
  }

  /** Calls a function of the server. An error ends the process, as Node does. */
  #guard(act: () => boolean): boolean {
    if (this.#hasEnded) return false;
    try {
      return act();
    } catch (error) {
      this.#print(this.stderr, Buffer.from(`${error instanceof Error ? error.stack : String(error)}\n`));
      this.#end({ exitCode: 1, signal: undefined, spawnErrorCode: undefined });
      return false;
    }
  }

  #continue(): void {
    this.#stop = undefined;
    for (const act of this.#postponed.splice(0)) act();
    this.#flow();
  }

  /** Exits when nothing keeps the event loop of the process running. */
  #exitWhenIdle(): void {
    setImmediate(() => {
      if (this.#hasEnded || this.#stop !== undefined || !this.#input.closed) return;
      for (const timer of this.#timers) if (timer.hasRef()) return;
      this.#end({ exitCode: this.#exitCode ?? 0, signal: undefined, spawnErrorCode: undefined });
    });
  }

  #end(exit: ProcessExit): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    running.delete(this.pid);
    for (const timer of this.#timers) clearTimeout(timer);
    this.#input.destroy();
    this.stdin.destroy();
    const written = exit.signal === undefined ? [this.stdout.room(), this.stderr.room()] : [];
    void Promise.all(written).then(() => {
      for (const pipe of [this.stdout, this.stderr]) pipe.close();
      setImmediate(() => this.#exit.resolve(exit));
    });
  }
}

/** The pipe of an output. A write of more than it holds keeps the process from its exit until it is read, as a write that blocks does. */
class OutputPipe extends Readable {
  readonly #queue: Buffer[] = [];
  #bytes = 0;
  #isOver = false;
  #wantsMore = false;
  #onRoom: (() => void) | undefined;

  accept(bytes: Buffer): void {
    if (this.#isOver) return;
    // A copy, as a pipe makes one.
    this.#queue.push(Buffer.from(bytes));
    this.#bytes += bytes.length;
    // What is written in one turn is read as one chunk.
    if (this.#queue.length === 1) queueMicrotask(() => this.#flow());
  }

  close(): void {
    this.#isOver = true;
    this.#flow();
  }

  /** Resolves when the rest is in the pipe. */
  async room(): Promise<void> {
    if (this.#bytes > PIPE_BYTES && !this.destroyed) await new Promise<void>((resolve) => (this.#onRoom = resolve));
  }

  override _read(): void {
    this.#wantsMore = true;
    this.#flow();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#onRoom?.();
    done(error);
  }

  #flow(): void {
    while (this.#wantsMore && this.#bytes > 0) {
      let count = 0;
      let bytes = 0;
      while (count < this.#queue.length && bytes < PIPE_BYTES) bytes += this.#queue[count++]?.length ?? 0;
      const chunk = Buffer.concat(this.#queue.splice(0, count));
      this.#bytes -= chunk.length;
      this.#wantsMore = this.push(chunk);
    }
    if (this.#bytes <= PIPE_BYTES) this.#onRoom?.();
    if (this.#isOver && this.#bytes === 0 && !this.readableEnded) this.push(null);
  }
}

function refuseSpawn(): never {
  throw new Error("a server in the test's process has no children: start this one as a real process");
}
