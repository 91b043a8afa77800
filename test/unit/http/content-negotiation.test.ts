import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { acceptsJson, hasJsonBody } from "../../../src/http/content-negotiation.ts";

/** A request as the HTTP parser hands it on, with these headers only. */
function requestWith(headers: Readonly<Record<string, string>>): IncomingMessage {
  const request = new IncomingMessage(new Socket());
  Object.assign(request.headers, headers);
  return request;
}

describe("hasJsonBody", () => {
  it.each([
    "application/json",
    "application/json; charset=utf-8",
    "application/json;charset=UTF-8",
    'application/json; charset="utf-8"',
    "Application/JSON",
    "application/json ; x=1",
  ])("takes %s", (contentType) => {
    expect(hasJsonBody(requestWith({ "content-type": contentType }))).toBe(true);
  });

  it.each([
    "",
    "text/plain",
    "application/jsonx",
    "application/json-rpc",
    "text/plain; x=application/json",
    "text/plain, application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=application/json",
    "application/json; charset=utf-16",
    "application/json; charset=iso-8859-1",
  ])("refuses %j", (contentType) => {
    expect(hasJsonBody(requestWith({ "content-type": contentType }))).toBe(false);
  });

  it("refuses a body of no declared type", () => {
    expect(hasJsonBody(requestWith({}))).toBe(false);
  });

  it.each(["gzip", "br", "deflate", "gzip, identity"])("refuses a body encoded with %s", (encoding) => {
    expect(hasJsonBody(requestWith({ "content-type": "application/json", "content-encoding": encoding }))).toBe(false);
  });

  it("takes a body that is declared as not encoded", () => {
    expect(hasJsonBody(requestWith({ "content-type": "application/json", "content-encoding": "Identity" }))).toBe(true);
  });
});

describe("acceptsJson", () => {
  it.each([
    "application/json, text/event-stream",
    "text/event-stream, application/json",
    "application/json",
    "application/json;q=0.1, text/event-stream",
    "application/json; charset=utf-8",
    "application/*",
    "*/*",
    "text/html, */*;q=0.1",
    "Application/JSON",
  ])("is content with %s", (accept) => {
    expect(acceptsJson(requestWith({ accept }))).toBe(true);
  });

  it("is content with a client that does not say what it accepts", () => {
    expect(acceptsJson(requestWith({}))).toBe(true);
  });

  it.each(["text/event-stream", "text/html", "application/xml, text/*", "application/json;q=0", "application/json;q=0, */*"])(
    "is not content with %s",
    (accept) => {
      expect(acceptsJson(requestWith({ accept }))).toBe(false);
    },
  );
});
