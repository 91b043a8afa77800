import type { RequestListener } from "node:http";
import type { Config } from "./config/load.ts";
import { OPTIONS } from "./config/options.ts";
import { MIN_KEY_LENGTH } from "./config/secret-file.ts";
import type { Apps } from "./http/app.ts";
import { isLoopback } from "./http/guards/authority.ts";
import { sendDefect } from "./http/json-response.ts";
import type { HttpListener } from "./http/listener.ts";
import type { Defects } from "./observability/defects.ts";
import type { Log } from "./observability/log.ts";
import { keyName } from "./sessions/ids/derived-keys.ts";

interface Addresses {
  readonly address: string;
  /** Undefined if operators use the same address. */
  readonly adminAddress: string | undefined;
}

/** The listeners of the sidecar: the main one, and that of ADMIN_ADDR. */
export class SidecarListeners {
  readonly main: HttpListener;
  readonly admin: HttpListener | undefined;
  readonly #config: Config;
  readonly #defects: Pick<Defects, "guard">;
  /** The requests that have arrived while the handlers are loaded. */
  readonly #early: (() => void)[] = [];
  #apps: Apps | undefined;

  constructor(create: (app: RequestListener) => HttpListener, config: Config, defects: Pick<Defects, "guard">) {
    const handlerOf =
      (name: keyof Apps): RequestListener =>
      (request, response) => {
        if (this.#apps !== undefined) return this.#apps[name]?.(request, response);
        const handle = (): void => this.#apps?.[name]?.(request, response);
        this.#early.push(() => this.#defects.guard("http request", handle, () => sendDefect(response, false)));
      };
    this.main = create(handlerOf("main"));
    this.admin = config.adminAddr && create(handlerOf("admin"));
    [this.#config, this.#defects] = [config, defects];
  }

  /** Sets the handlers of all requests. */
  serve(apps: Apps): void {
    this.#apps = apps;
    for (const handle of this.#early.splice(0)) handle();
  }

  /** @throws the system's error, for example EADDRINUSE. Nothing listens then. */
  async listen(): Promise<Addresses> {
    try {
      // Clients must not be accepted if the other address is taken.
      const { adminAddr } = this.#config;
      const adminAddress = adminAddr && (await this.admin?.listen(adminAddr).catch(nameOption));
      return { address: await this.main.listen(this.#config), adminAddress };
    } catch (error) {
      this.admin?.close();
      throw error;
    }
  }

  log({ address, adminAddress }: Addresses, log: Log): void {
    const { host, port, path, adminAddr, authTokens } = this.#config;
    if (adminAddress !== undefined) log.info({ address: adminAddress }, "listening for operators");
    log.info({ address, path }, "listening");
    logSessionKeys(this.#config, log);
    if (authTokens.length > 0) return;
    const message = "no auth token is set: every client that reaches the address may call";
    if (isLoopback(host) && (adminAddr === undefined || isLoopback(adminAddr.host))) log.info({}, message);
    else {
      const remedy = isLoopback(host) ? "--admin-addr 127.0.0.1:PORT" : `--addr 127.0.0.1:${port}`;
      log.warn({ reason: `set ${OPTIONS.authToken.variable}, or, outside a container, use ${remedy}` }, message);
    }
  }
}

/** Logs the names of the keys, or the cost of random ones. */
function logSessionKeys({ sessionKeys, serverName, authTokens }: Config, log: Log): void {
  if (sessionKeys.length > 0) {
    const keys = sessionKeys.map((key) => keyName(key, serverName));
    return log.info({ count: keys.length, keys }, "session keys loaded");
  }
  const shortCount = authTokens.filter((text) => text.length < MIN_KEY_LENGTH).length;
  if (authTokens.length > 0 && shortCount === 0) return;
  const reason = `set ${OPTIONS.sessionKey.variable}, so that clients go on after a restart, and at any replica`;
  const short = shortCount === 0 ? "" : `; tokens of fewer than ${MIN_KEY_LENGTH} characters: ${shortCount}`;
  log.info({ reason: reason + short }, "session keys are random: sessions end with the sidecar");
}

/** Adds the option to an error, for the advice of the command line. */
function nameOption(error: Error): never {
  throw Object.assign(error, { option: "--admin-addr" });
}
