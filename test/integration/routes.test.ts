import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROUTES } from "../../src/routes.ts";
import { errorReply, readError } from "../support/error-reply.ts";
import { send } from "../support/http-client.ts";
import { Sidecar } from "../support/sidecar.ts";

describe("each route", () => {
  let sidecar: Sidecar;
  beforeAll(async () => {
    sidecar = await Sidecar.start({ flags: ["--legacy-sse", "on"] });
  });
  afterAll(() => sidecar[Symbol.asyncDispose]());

  it.each(Object.values(ROUTES))("OPTIONS gets the route's methods, and other methods get 405: $path", async ({ path, methods }) => {
    const url = `${sidecar.origin}${path}`;
    const allow = [...methods, "OPTIONS"].join(", ");
    const options = await send(url, { method: "OPTIONS" });
    expect(options).toMatchObject({ status: 204, body: "", headers: { allow } });
    const wrong = ["GET", "POST", "DELETE", "PATCH"].filter((method) => !(methods as readonly string[]).includes(method));
    for (const method of wrong) {
      const reply = await send(url, { method, body: "" });
      expect(readError(reply)).toStrictEqual(errorReply(405, -32000, "METHOD_NOT_ALLOWED"));
      expect(reply.headers.allow).toBe(allow);
    }
  });
});
