import type { Socket } from "node:net";

/** Indexes of the parser's callbacks, which it calls with each chunk of a body and at the end of a message. */
const ON_BODY = 3;
const ON_MESSAGE_COMPLETE = 4;

type Callback = (...values: readonly unknown[]) => unknown;

/** Node's HTTP parser of a connection. It is not documented: without it, the functions here have no effect. */
interface NodeParser {
  onIncoming?: () => number;
  [ON_BODY]?: Callback | undefined;
  [ON_MESSAGE_COMPLETE]?: Callback;
}

/**
 * Makes the parser stop within the data that it has received. Otherwise, it would pass on all requests of up to 64 KiB: neither a pause nor
 * the end of the socket has an effect before, so that each further request costs its parsing.
 */
export function stopParser(socket: Socket): void {
  const parser = parserOf(socket);
  // Any result but 0, 1 and 2 is an error of the request to the parser.
  if (typeof parser?.onIncoming === "function") parser.onIncoming = () => -1;
}

/** Makes the parser drop the rest of a body. Otherwise, it calls JavaScript with each chunk, of which ten thousand may arrive at once. */
export function skipBody(socket: Socket): void {
  const parser = parserOf(socket);
  const { [ON_BODY]: onBody, [ON_MESSAGE_COMPLETE]: onComplete } = parser ?? {};
  if (parser === undefined || onBody?.name !== "parserOnBody" || onComplete?.name !== "parserOnMessageComplete") return;
  // The parser goes on with the next request, or with another connection.
  const restore = (): void => {
    [parser[ON_BODY], parser[ON_MESSAGE_COMPLETE]] = [onBody, onComplete];
    socket.off("close", restore);
  };
  parser[ON_BODY] = undefined;
  parser[ON_MESSAGE_COMPLETE] = () => {
    restore();
    return onComplete.call(parser);
  };
  socket.prependListener("close", restore);
}

function parserOf(socket: Socket): NodeParser | undefined {
  return (socket as { readonly parser?: NodeParser | null }).parser ?? undefined;
}
