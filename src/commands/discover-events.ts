import { StringDecoder } from "node:string_decoder";

/**
 * Reads server-sent events as they arrive (WHATWG HTML, "Server-sent events"): the data of each event that has some. Which kind an
 * event is does not matter here: a Streamable HTTP server sends messages only.
 */
export class EventReader {
  readonly #onData: (data: string) => void;
  readonly #decoder = new StringDecoder("utf8");
  /** The line that is not complete yet, in pieces: joining a long one again and again would take long. */
  #pieces: string[] = [];
  #data: string[] = [];
  #isAfterCarriageReturn = false;

  constructor(onData: (data: string) => void) {
    this.#onData = onData;
  }

  push(chunk: Buffer): void {
    let text = this.#decoder.write(chunk);
    if (text === "") return;
    // The second half of a line end that was cut in two.
    if (this.#isAfterCarriageReturn && text.startsWith("\n")) text = text.slice(1);
    this.#isAfterCarriageReturn = text.endsWith("\r");
    const lines = text.split(/\r\n|\n|\r/);
    const last = lines.pop() ?? "";
    for (const line of lines) {
      this.#pieces.push(line);
      this.#line(this.#pieces.join(""));
      this.#pieces = [];
    }
    if (last !== "") this.#pieces.push(last);
  }

  #line(line: string): void {
    if (line === "") {
      if (this.#data.length > 0) this.#onData(this.#data.join("\n"));
      this.#data = [];
    } else if (line === "data") this.#data.push("");
    else if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
  }
}
