// Parses HTTP/1.1 responses from a byte stream, with bodies that have a
// Content-Length or are chunked. It is hand-written, because an HTTP client
// library would need more CPU than the targets.

export interface HttpResponse {
  status: number;
  /** The status line and headers, unchanged. */
  head: string;
  /** The body. The buffer is reused for the next response. */
  body: Buffer;
}

type State = "head" | "fixed-body" | "chunk-size" | "chunk-data" | "chunk-end" | "trailer";

const HEAD_END = Buffer.from("\r\n\r\n");
const LF = 10;
const CR = 13;

export class HttpResponseParser {
  readonly #onResponse: (response: HttpResponse) => void;
  #state: State = "head";
  #unfinishedHead: Buffer | null = null;
  #status = 0;
  #head = "";
  #body = Buffer.allocUnsafe(4096);
  #bodyBytes = 0;
  #remainingBytes = 0;
  #chunkSizeText = "";
  #lineIsEmpty = true;

  constructor(onResponse: (response: HttpResponse) => void) {
    this.#onResponse = onResponse;
  }

  feed(bytes: Buffer): void {
    let chunk = bytes;
    let offset = 0;
    if (this.#unfinishedHead !== null) {
      chunk = Buffer.concat([this.#unfinishedHead, bytes]);
      this.#unfinishedHead = null;
    }
    while (offset < chunk.length) {
      offset = this.#step(chunk, offset);
    }
  }

  /** Consumes bytes for the current state. @returns the offset for the next state. */
  #step(chunk: Buffer, offset: number): number {
    switch (this.#state) {
      case "head":
        return this.#readHead(chunk, offset);
      case "fixed-body":
        return this.#readBody(chunk, offset, () => this.#complete());
      case "chunk-data":
        return this.#readBody(chunk, offset, () => (this.#state = "chunk-end"));
      case "chunk-size":
        return this.#readChunkSize(chunk, offset);
      case "chunk-end":
        if (chunk[offset] === LF) this.#state = "chunk-size";
        return offset + 1;
      case "trailer":
        break;
    }
    return this.#readTrailer(chunk, offset);
  }

  #readHead(chunk: Buffer, offset: number): number {
    const end = chunk.indexOf(HEAD_END, offset);
    if (end === -1) {
      this.#unfinishedHead = Buffer.from(chunk.subarray(offset));
      return chunk.length;
    }
    this.#head = chunk.toString("latin1", offset, end);
    this.#status = Number(this.#head.slice(9, 12));
    this.#bodyBytes = 0;
    this.#startBody();
    return end + HEAD_END.length;
  }

  #startBody(): void {
    if (/\r\ntransfer-encoding: *chunked/i.test(this.#head)) {
      this.#state = "chunk-size";
      return;
    }
    const length = /\r\ncontent-length: *(\d+)/i.exec(this.#head)?.[1];
    if (length === undefined && this.#status !== 204) {
      throw new Error(`response without a length: ${this.#head}`);
    }
    this.#remainingBytes = Number(length ?? 0);
    this.#state = "fixed-body";
    if (this.#remainingBytes === 0) this.#complete();
  }

  #readBody(chunk: Buffer, offset: number, onEnd: () => void): number {
    const taken = Math.min(this.#remainingBytes, chunk.length - offset);
    this.#reserve(this.#bodyBytes + this.#remainingBytes);
    chunk.copy(this.#body, this.#bodyBytes, offset, offset + taken);
    this.#bodyBytes += taken;
    this.#remainingBytes -= taken;
    if (this.#remainingBytes === 0) onEnd();
    return offset + taken;
  }

  #readChunkSize(chunk: Buffer, offset: number): number {
    const end = chunk.indexOf(LF, offset);
    this.#chunkSizeText += chunk.toString("latin1", offset, end === -1 ? chunk.length : end);
    if (end === -1) return chunk.length;
    this.#remainingBytes = Number.parseInt(this.#chunkSizeText, 16);
    if (Number.isNaN(this.#remainingBytes)) {
      throw new Error(`bad chunk size: ${JSON.stringify(this.#chunkSizeText)}`);
    }
    this.#chunkSizeText = "";
    this.#lineIsEmpty = true;
    this.#state = this.#remainingBytes === 0 ? "trailer" : "chunk-data";
    return end + 1;
  }

  #readTrailer(chunk: Buffer, offset: number): number {
    const byte = chunk[offset];
    if (byte === LF) {
      if (this.#lineIsEmpty) this.#complete();
      this.#lineIsEmpty = true;
    } else if (byte !== CR) {
      this.#lineIsEmpty = false;
    }
    return offset + 1;
  }

  #reserve(bytes: number): void {
    if (bytes <= this.#body.length) return;
    const larger = Buffer.allocUnsafe(bytes * 2);
    this.#body.copy(larger, 0, 0, this.#bodyBytes);
    this.#body = larger;
  }

  #complete(): void {
    this.#state = "head";
    this.#onResponse({
      status: this.#status,
      head: this.#head,
      body: this.#body.subarray(0, this.#bodyBytes),
    });
  }
}
