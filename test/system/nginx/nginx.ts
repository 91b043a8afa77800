import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { promisify } from "node:util";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";

const POLL_MS = 20;
const WAIT_TIMEOUT_MS = 30_000;

/** An nginx with TLS, whose certificate this process trusts from then on. Use with `await using`. */
export class Nginx implements AsyncDisposable {
  readonly origin: string;
  readonly #owned: OwnedResources;

  private constructor(origin: string, owned: OwnedResources) {
    [this.origin, this.#owned] = [origin, owned];
  }

  /**
   * @param server the block `server`, which listens on port 443: another one takes its place. Its certificate is `mcp.example.crt`.
   * @returns when it listens.
   */
  static async start(server: string): Promise<Nginx> {
    await using owned = new OwnedResources();
    const folder = owned.use(await TempDir.create());
    const port = await freePort();
    await certify(folder);
    await writeFile(folder.file("nginx.conf"), configuration(folder, server.replace("listen 443", `listen 127.0.0.1:${port}`)));
    const child = spawn("nginx", ["-p", folder.path, "-c", folder.file("nginx.conf"), "-e", "stderr"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const errors = text(child.stderr);
    owned.useProcess(child, "SIGTERM");
    const deadlineMs = performance.now() + WAIT_TIMEOUT_MS;
    while (!(await accepts(port))) {
      if (child.exitCode !== null || performance.now() > deadlineMs) throw new Error(`nginx does not listen:\n${await errors}`);
      await delay(POLL_MS);
    }
    return new Nginx(`https://localhost:${port}`, owned.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned[Symbol.asyncDispose]();
  }
}

async function certify(folder: TempDir): Promise<void> {
  const [certificate, key] = [folder.file("mcp.example.crt"), folder.file("mcp.example.key")];
  const names = "subjectAltName=DNS:mcp.example,DNS:other.example,DNS:localhost";
  const options = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=mcp.example", "-addext", names];
  await promisify(execFile)("openssl", [...options, "-keyout", key, "-out", certificate]);
  setDefaultCACertificates([...getCACertificates(), await readFile(certificate, "utf8")]);
}

/** One process, so that it needs no other user. Nothing of it is outside of the folder. */
function configuration(folder: TempDir, server: string): string {
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder.file(name)};`);
  return `daemon off;
master_process off;
pid ${folder.file("nginx.pid")};
events {}
http {
  access_log off;
  ${folders.join("\n  ")}
  ${server}
}
`;
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
