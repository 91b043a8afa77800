import type { RequestListener } from "node:http";
import { expect, it } from "vitest";
import type { Config } from "../../src/config/load.ts";
import type { HttpListener } from "../../src/http/listener.ts";
import { SidecarListeners } from "../../src/sidecar-listeners.ts";

it("a request that arrives before the handlers are loaded waits for its own", () => {
  const handlers: RequestListener[] = [];
  const create = (handler: RequestListener): HttpListener => {
    handlers.push(handler);
    return {} as HttpListener;
  };
  const guard = (_event: string, handle: () => void): void => handle();
  const config = { adminAddr: { host: "127.0.0.1", port: 1 } } as Config;
  const listeners = new SidecarListeners(create, config, { guard });
  const [toMain, toAdmin] = handlers as [RequestListener, RequestListener];
  const send = (handler: RequestListener, name: string): void => handler({ url: name } as never, {} as never);
  const handled: string[] = [];
  const app =
    (name: string): RequestListener =>
    ({ url }) =>
      void handled.push(`${name}: ${url}`);
  send(toAdmin, "first");
  send(toMain, "second");
  expect(handled).toEqual([]);
  listeners.serve({ main: app("main"), admin: app("admin") });
  send(toMain, "third");
  expect(handled).toEqual(["admin: first", "main: second", "main: third"]);
});
