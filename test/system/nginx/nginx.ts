import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { OwnedResources } from "../../support/owned-resources.ts";
import { TempDir } from "../../support/temp-dir.ts";
import { freePort } from "../../support/open-sockets.ts";

const POLL_MS = 20;
const WAIT_TIMEOUT_MS = 30_000;

/** An nginx that serves a sidecar under a path prefix. Use with `await using`. */
export class Nginx implements AsyncDisposable {
  readonly origin: string;
  readonly #owned: OwnedResources;

  private constructor(origin: string, owned: OwnedResources) {
    [this.origin, this.#owned] = [origin, owned];
  }

  /** @param prefix such as `/svc/`. @param address that of the sidecar. @returns when it listens. */
  static async start(prefix: string, address: string): Promise<Nginx> {
    await using owned = new OwnedResources();
    const folder = owned.use(await TempDir.create());
    const port = await freePort();
    await writeFile(folder.file("nginx.conf"), configuration(folder, port, prefix, address));
    const child = spawn("nginx", ["-p", folder.path, "-c", folder.file("nginx.conf"), "-e", "stderr"], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const errors = text(child.stderr);
    const end = async (): Promise<void> => {
      const ended = once(child, "exit");
      if (child.exitCode === null && child.kill("SIGTERM")) await ended;
    };
    owned.use({ [Symbol.asyncDispose]: end });
    const deadlineMs = performance.now() + WAIT_TIMEOUT_MS;
    while (!(await accepts(port))) {
      if (child.exitCode !== null || performance.now() > deadlineMs) throw new Error(`nginx does not listen:\n${await errors}`);
      await delay(POLL_MS);
    }
    return new Nginx(`http://127.0.0.1:${port}`, owned.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#owned[Symbol.asyncDispose]();
  }
}

/** One process, so that it needs no other user. Nothing of it is outside of the folder. */
function configuration(folder: TempDir, port: number, prefix: string, address: string): string {
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder.file(name)};`);
  return `daemon off;
master_process off;
pid ${folder.file("nginx.pid")};
events {}
http {
  access_log off;
  ${folders.join("\n  ")}
  server {
    listen 127.0.0.1:${port};
    location ${prefix} {
      proxy_pass http://${address}/;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
    }
  }
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
