import type { IncomingMessage, ServerResponse } from "node:http";
import { SidecarError } from "../../errors.ts";
import { hasPrimedStreams } from "../../protocol/versions.ts";
import type { MemoryAccount } from "../../memory/memory-budget.ts";
import { parseEventId } from "../../sessions/streams/event-id.ts";
import { type EventSink, EventStream } from "../../sessions/streams/event-stream.ts";
import type { Session } from "../../sessions/session.ts";
import { permitsEventStream } from "./content-negotiation.ts";
import { responseElsewhere } from "../../lane/failures.ts";
import { errorBody } from "../error-response.ts";
import { sendError } from "../json-response.ts";
import type { SseConnection, SseConnections } from "../output/sse-connection.ts";

/** A stream and the connection on which it was opened. */
export interface OpenStream {
  readonly stream: EventStream;
  readonly connection: EventSink;
  /** True if the client has an event id for resumption. */
  readonly isPrimed: boolean;
}

/**
 * Answers a POST with a stream, for messages that precede its response. The client gets an event id before the first message, because
 * sending the request again may not be safe. A GET needs no such id: it can be sent again, and some clients reject an event without data.
 */
export function openRequestStream(
  connections: SseConnections,
  response: ServerResponse,
  session: Session,
  requestIdText: string | undefined,
): OpenStream {
  const stream = session.streams.openForRequest(requestIdText);
  const connection = connect(connections, response, session, stream, 0);
  const isPrimed = hasPrimedStreams(session.protocolVersion);
  if (isPrimed) connection.prime(stream.eventId(0));
  return { stream, connection, isPrimed };
}

/** Answers a POST without a session with a stream. Its events have no ids, because the client cannot reconnect (MCP 2026-07-28, basic/transports). */
export function openStatelessStream(connections: SseConnections, response: ServerResponse, memory: MemoryAccount): OpenStream {
  const sse = connections.open(response, memory);
  const connection: EventSink = { send: (_eventId, text) => sse.sendWithoutId("message", text), end: () => sse.end() };
  const name = { isStandalone: false, streamId: 1, replica: "" };
  const stream = new EventStream(name, undefined, () => undefined);
  stream.attach(connection);
  return { stream, connection, isPrimed: false };
}

/**
 * Answers a GET (MCP 2025-11-25, basic/transports) with a new stream for messages that belong to no request. With `Last-Event-ID`, it
 * continues the stream of that event. If that stream is completely delivered, the response is 204, and clients stop reconnecting. Instead
 * of a GET stream of another replica, a new one is opened. A request that another replica has got is answered with an error.
 */
export function openGetStream(connections: SseConnections, request: IncomingMessage, response: ServerResponse, session: Session): void {
  if (!permitsEventStream(request)) return sendError(response, new SidecarError("NOT_ACCEPTABLE", "Accept must allow text/event-stream."));
  const lastEventId = request.headers["last-event-id"];
  // Clients send an empty `Last-Event-ID` before their first event.
  if (lastEventId === undefined || lastEventId === "") return attach(session.streams.openStandalone(), 0);
  const position = parseEventId(String(lastEventId));
  const found = position === undefined ? "unknown" : session.streams.find(position);
  if (found === "delivered") response.writeHead(204).end();
  else if (found === "elsewhere" && position?.isStandalone === true) attach(session.streams.openStandalone(), 0);
  else if (found === "elsewhere" && position?.requestIdText !== undefined) {
    const { stream } = openRequestStream(connections, response, session, position.requestIdText);
    stream.finish(errorBody(responseElsewhere(), position.requestIdText));
  } else if (position === undefined || found === "unknown" || found === "elsewhere") {
    sendError(
      response,
      new SidecarError(
        "EVENT_NOT_FOUND",
        "Last-Event-ID is not an event of this session at this replica, or the events after it are no longer kept; open the stream without it.",
      ),
    );
  } else attach(found, position.sequence);

  function attach(stream: EventStream, sequence: number): void {
    const connection = connect(connections, response, session, stream, sequence);
    connection.onClosed = () => stream.detach(connection);
  }
}

function connect(
  connections: SseConnections,
  response: ServerResponse,
  session: Session,
  stream: EventStream,
  sequence: number,
): SseConnection {
  const connection = connections.open(response, session.memory, { "Mcp-Session-Id": session.id });
  connection.replay(() => {
    stream.attach(connection, sequence);
    if (!stream.isStandalone) return;
    session.announceLists();
    session.streams.deliverWaiting();
  });
  return connection;
}
