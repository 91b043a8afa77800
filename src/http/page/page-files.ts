import { readdir, readFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { SidecarError } from "../../errors.ts";
import type { Defects } from "../../observability/defects.ts";
import { acceptsGzip, acceptsHtml } from "../endpoint/content-negotiation.ts";
import { sendDefect } from "../json-response.ts";
import { describeEndpoint } from "../not-found.ts";
import { discardBody, reject } from "../reject.ts";
import type { Route } from "../route.ts";

/** The folder to which the build writes the compressed files. */
const FOLDER = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "../../../dist/page/" : "page/", import.meta.url));
const INDEX = "index.html";
const SUFFIX = ".gz";

const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ["html", "text/html; charset=utf-8"],
  ["js", "text/javascript; charset=utf-8"],
  ["css", "text/css; charset=utf-8"],
]);

/**
 * The page runs its own scripts only, connects to its own origin only, and cannot be framed. Results of tools have images as `data:` URLs.
 * Trusted types keep scripts from turning text into code or markup.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const SECURITY_HEADERS = {
  "Content-Security-Policy": CONTENT_SECURITY_POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

const decompress = promisify(gunzip);

/** The files of the page. They are read at the first request, and stay in memory. */
export class PageFiles {
  readonly #defects: Pick<Defects, "recover">;
  readonly #endpointPath: string | null;
  #files: Promise<ReadonlyMap<string, Buffer>> | undefined;
  /** Of the files that a client has read without compression. Responses share the bytes, so those that are not read take no more memory. */
  readonly #decompressed = new Map<string, Promise<Buffer>>();

  /** @param endpointPath null if the MCP endpoint has another address. */
  constructor(defects: Pick<Defects, "recover">, endpointPath: string | null) {
    [this.#defects, this.#endpointPath] = [defects, endpointPath];
  }

  /** The route of the page itself. A cached page could name scripts of an older build. */
  readonly indexRoute: Route = (request, response) => {
    if (acceptsHtml(request)) return this.#answer(request, response, INDEX, "no-cache");
    // An MCP client may have the URL without its path.
    const endpoint = describeEndpoint(this.#endpointPath ?? undefined);
    reject(request, response, new SidecarError("NOT_FOUND", `There is only a page for browsers at /; ${endpoint}.`));
  };

  /** The route of all other files. Their names have a hash of their content. */
  readonly fileRoute: Route = (request, response) => {
    const name = /^\/page\/(?<name>[\w.-]+)\/?(?:\?|$)/.exec(request.url ?? "")?.groups?.["name"] ?? "";
    this.#answer(request, response, name === INDEX ? "" : name, "public, max-age=31536000, immutable");
  };

  #answer(...[request, response, name, cacheControl]: [...Parameters<Route>, name: string, cacheControl: string]): void {
    this.#files ??= readFiles();
    const respond = async (files: ReadonlyMap<string, Buffer>): Promise<void> => {
      const compressed = files.get(name);
      if (compressed === undefined) {
        const message = "The page has no such file. If the sidecar was updated, load the page again.";
        return reject(request, response, new SidecarError("NOT_FOUND", message));
      }
      discardBody(request);
      const isCompressed = acceptsGzip(request);
      const content = isCompressed ? compressed : await this.#decompress(name, compressed);
      send(response, content, {
        ...SECURITY_HEADERS,
        "Content-Type": CONTENT_TYPES.get(name.slice(name.lastIndexOf(".") + 1)) ?? "application/octet-stream",
        "Cache-Control": cacheControl,
        Vary: "Accept, Accept-Encoding",
        ...(isCompressed ? { "Content-Encoding": "gzip" } : {}),
      });
    };
    this.#files.then(respond).catch((error: unknown) => {
      // The next request tries again.
      this.#files = undefined;
      this.#decompressed.clear();
      this.#defects.recover("page", error, () => sendDefect(response, false));
    });
  }

  #decompress(name: string, compressed: Buffer): Promise<Buffer> {
    let decompressed = this.#decompressed.get(name);
    if (decompressed === undefined) this.#decompressed.set(name, (decompressed = decompress(compressed)));
    return decompressed;
  }
}

function send(response: ServerResponse, content: Buffer, headers: Readonly<Record<string, string>>): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(200, { ...headers, "Content-Length": content.length }).end(content);
}

async function readFiles(): Promise<ReadonlyMap<string, Buffer>> {
  const names = (await readdir(FOLDER)).filter((name) => name.endsWith(SUFFIX));
  return new Map(
    await Promise.all(names.map(async (name) => [name.slice(0, -SUFFIX.length), await readFile(`${FOLDER}${name}`)] as const)),
  );
}
