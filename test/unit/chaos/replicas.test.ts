import { createServer, type RequestListener } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { Inbox } from "../../../chaos/client/inbox.ts";
import { type Endpoint, spreadExchange, type Target } from "../../../chaos/client/exchange.ts";
import { Ledger, type RequestRecord, Tally } from "../../../chaos/ledger.ts";
import { worst } from "../../../chaos/fleet.ts";
import { findFreePort } from "../../../bench/program.ts";

function record(id: number): RequestRecord {
  return { client: "anna", what: "echo", id, nonce: `n${id}`, text: "t", sentAtMs: 0 };
}

function targetAt(port: number, wasKilled = false): Target {
  return { url: `http://127.0.0.1:${port}/`, tally: new Tally(), wasKilled };
}

async function listen(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function spreadOver(targets: readonly Target[]): Endpoint {
  let turn = 0;
  const next = (): Target | undefined => targets[turn++];
  return { url: "http://127.0.0.1:1/", token: undefined, replicas: { next, all: () => targets } };
}

describe("requests that are spread over replicas", () => {
  it("a request goes to the next replica if one refuses the connection", async () => {
    const port = await listen((_request, response) => response.end("{}"));
    const targets = [targetAt(await findFreePort()), targetAt(port)];
    const tried: Target[] = [];
    const { ended } = spreadExchange(spreadOver(targets), { body: "{}" }, {}, { onTarget: (target) => tried.push(target) });
    expect((await ended).head?.status).toBe(200);
    expect(tried).toEqual(targets);
  });

  it("a request is not sent again if its connection breaks", async () => {
    const broken = await listen((request) => request.socket.destroy());
    let served = 0;
    const other = await listen((_request, response) => {
      served++;
      response.end("{}");
    });
    const killed = { ...targetAt(broken), wasKilled: true };
    const ends = await Promise.all(
      [killed, targetAt(broken)].map((first) => {
        const endpoint = spreadOver([first, targetAt(other)]);
        return spreadExchange(endpoint, { body: "{}" }, {}, { onTarget: () => undefined }).ended;
      }),
    );
    expect(ends.map(({ isKilled }) => isKilled)).toEqual([true, undefined]);
    expect(served).toBe(0);
  });

  it("a broken request is cut by a kill only if its replica was killed", () => {
    const ledger = new Ledger();
    const inbox = new Inbox("anna", ledger, { onRight: () => undefined, onServerRequest: () => undefined });
    const [killed, broken] = [record(1), record(2)];
    for (const each of [killed, broken]) inbox.expect(each);
    inbox.settleAtEnd(killed, { failure: "ECONNRESET", isKilled: true }, false);
    inbox.settleAtEnd(broken, { failure: "ECONNRESET" }, false);
    expect([killed.verdict, broken.verdict]).toEqual(["cut-by-kill", "lost"]);
  });

  it("a request counts for its replica, until its response may come from another one", () => {
    const ledger = new Ledger();
    const tally = new Tally();
    const [settled, resumed] = [record(1), record(2)];
    for (const each of [settled, resumed]) {
      ledger.open(each);
      ledger.attach(each, tally);
    }
    ledger.settle(settled, "right");
    ledger.detach(resumed);
    ledger.settle(resumed, "error", "OTHER_REPLICA");
    expect(tally).toMatchObject({ sent: 2, verdicts: { right: 1, abandoned: 1, error: 0 } });
    expect(ledger.verdicts).toMatchObject({ right: 1, abandoned: 0, error: 1 });
  });

  it("the worst end is a forced one, then a wrong exit code, then the slowest", () => {
    const end = (exitCode: number | null, tookMs: number, isForced = false): Parameters<typeof worst>[0][number] => ({
      exitCode,
      signal: null,
      tookMs,
      isForced,
    });
    expect(worst([end(0, 10), end(0, 20), end(0, 5)]).tookMs).toBe(20);
    expect(worst([end(0, 10), end(1, 1), end(0, 5)]).exitCode).toBe(1);
    expect(worst([end(1, 10), end(null, 1, true)]).isForced).toBe(true);
  });
});
