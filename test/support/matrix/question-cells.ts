import type { JsonRpcMessage } from "../json-rpc.ts";
import type { Call } from "./matrix-client.ts";
import { cancel, disconnect } from "./request-cells.ts";
import { type Run, WORK } from "./run.ts";
import { resultOf, type ScriptedServer } from "./scripted-server.ts";

const QUESTION_ID = "question";

const QUESTIONS: Readonly<Record<string, { readonly params: object; readonly answer: object }>> = {
  "elicitation/create": {
    params: { message: "Your name?", requestedSchema: { type: "object", properties: {} } },
    answer: { action: "accept", content: {} },
  },
  "sampling/createMessage": {
    params: { messages: [], maxTokens: 1 },
    answer: { role: "assistant", content: { type: "text", text: "hi" }, model: "m" },
  },
  "roots/list": { params: {}, answer: { roots: [] } },
};

/** Calls a tool, lets its server ask the client, and ends the call in the way of the cell. */
export async function runQuestion(run: Run, method: string): Promise<void> {
  const { cell, servers, client, changes } = run;
  const call = client.call("tools/call", WORK);
  const { process: number, message } = await servers.wait((each) => each.method === "tools/call", "the call");
  const server = servers.process(number);
  ask(server, message, method);
  const state = await changes.until(() => {
    if (questionOf(call) !== undefined) return "asked";
    if (servers.received.some((each) => isAnswer(each.message))) return "refused";
    return call.isDone ? "failed" : undefined;
  }, "the question, or its end");
  if (state === "asked") await end(run, call, server, message, method);
  if (state === "refused") {
    if (cell.ending === "error") server.fail(message, -32_603);
    else server.respond(message, resultOf("tools/call"));
    await client.done(call);
  }
  if (cell.ending !== "drain") await client.marker();
}

function ask(server: ScriptedServer, { id }: JsonRpcMessage, method: string): void {
  const question = { method, params: QUESTIONS[method]?.params };
  if (server.era === "2025") server.send({ id: QUESTION_ID, ...question });
  else server.send({ id, result: { resultType: "input_required", inputRequests: { question }, requestState: "state" } });
}

function isAnswer({ id, method }: JsonRpcMessage): boolean {
  return id === QUESTION_ID && method === undefined;
}

/** Returns the request, or the result, that asks the client. */
function questionOf({ messages }: Call): JsonRpcMessage | undefined {
  return messages.find(
    ({ id, method, result }) => (method !== undefined && id !== undefined) || result?.["resultType"] === "input_required",
  );
}

async function end(run: Run, call: Call, server: ScriptedServer, message: JsonRpcMessage, method: string): Promise<void> {
  const { cell, bench, client, servers } = run;
  const isSuspended = cell.client === "2026" || server.era === "2026";
  switch (cell.ending) {
    case "result":
    case "error": {
      const next = await answer(run, call, method);
      await respondAfterAnswer(run, next, server, message);
      await client.done(next);
      break;
    }
    case "cancel":
      await cancel(run, call);
      server.respond(message, resultOf("tools/call"));
      break;
    case "disconnect":
      await disconnect(run, call);
      break;
    case "timeout":
      // A session answers an elicitation that nobody has answered: the server then gets its call again.
      servers.answersAll = true;
      if (cell.client !== "2026") await client.done(call);
      else {
        await servers.wait((each) => each.method === "notifications/cancelled", "the cancellation");
        await client.done(await answer(run, call, method));
      }
      break;
    case "crash":
      servers.answersAll = true;
      server.crash();
      if (!isSuspended) await client.done(call);
      await client.marker();
      if (isSuspended) await client.done(await answer(run, call, method));
      break;
    case "drain":
      bench.kill();
      if (cell.client !== "2026") await client.done(call);
      await bench.ended;
      break;
    case "answered drain":
  }
}

/** Lets the client answer. @returns its call: in 2026 another one. */
async function answer({ cell, client }: Run, call: Call, method: string): Promise<Call> {
  const question = questionOf(call);
  if (question === undefined) throw new Error("no question");
  const result = QUESTIONS[method]?.answer ?? {};
  if (cell.client === "2026") {
    const { inputRequests = {}, requestState } = (question.result ?? {}) as { inputRequests?: object; requestState?: unknown };
    const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, result]));
    return client.call(call.method, call.params, { inputResponses, requestState });
  }
  await client.answer(question, cell.ending === "error" ? { error: { code: -1, message: "no" } } : { result });
  return call;
}

/** Ends the call at the server when it has got the answer, unless the call has ended. */
async function respondAfterAnswer(
  { cell, servers, changes }: Run,
  call: Call,
  server: ScriptedServer,
  message: JsonRpcMessage,
): Promise<void> {
  const isNext = (each: JsonRpcMessage): boolean =>
    server.era === "2025" ? isAnswer(each) : each.method === "tools/call" && each.id !== message.id;
  const find = (): JsonRpcMessage | undefined => servers.received.map((each) => each.message).find(isNext);
  await changes.until(() => find() ?? (call.isDone ? true : undefined), "the answer, or the end of the call");
  const next = find();
  if (next === undefined || call.isDone) return;
  const target = server.era === "2025" ? message : next;
  if (cell.ending === "error") server.fail(target, -32_603);
  else server.respond(target, resultOf("tools/call"));
}
