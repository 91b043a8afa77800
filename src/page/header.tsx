import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { PageState } from "../http/page-update.ts";
import type { Connection } from "./connection.ts";
import { durationText, endpointUrl, timeText } from "./format.ts";
import { Fact, MAX_FACT_LENGTH, Text, TextFact } from "./text.tsx";

/** The class of the sign, and the words of each state. */
const STATES: Readonly<Record<PageState["state"], { readonly tone: string; readonly words: string }>> = {
  ready: { tone: "good", words: "Ready" },
  starting: { tone: "wait", words: "Starting" },
  "backing-off": { tone: "bad", words: "Restarting" },
  stopping: { tone: "wait", words: "Stopping" },
  failed: { tone: "bad", words: "Failed" },
};

export function Header({ connection, state }: { readonly connection: Connection; readonly state: PageState | undefined }): JSX.Element {
  const { tone, words } = summary(connection, state);
  useEffect(() => {
    document.title = `${words} – ${location.host}`;
  }, [words]);
  return (
    <header>
      <h1>claw-mcp-stdio {state !== undefined && <small>{state.version}</small>}</h1>
      <p class="state">
        <span class={`sign ${tone}`} aria-hidden="true" />
        {/* Only the words that change with the state: a counter in it would be read aloud each second. */}
        <strong role="status" id="state">
          {words}
        </strong>
        {state !== undefined && <span>{detail(connection, state)}</span>}
      </p>
      {connection.kind === "lost" && (
        <p class="note">
          <Text of={connection.reason} /> {state !== undefined && "Below is the last state that it received."}
        </p>
      )}
      {state !== undefined && <ServerFacts state={state} isLive={connection.kind === "live"} />}
      {state !== undefined && (
        <nav aria-label="Sections">
          <a href="#tools-title">Tools</a> <a href="#requests-title">Requests</a> <a href="#log-title">Log</a>{" "}
          <a href="#numbers-title">Load</a>
        </nav>
      )}
    </header>
  );
}

function ServerFacts({ state, isLive }: { readonly state: PageState; readonly isLive: boolean }): JSX.Element {
  const exit = isLive && state.state !== "ready" && state.lastExit;
  return (
    <dl class="facts">
      {state.endpointPath !== null && (
        <Fact name="MCP endpoint">
          <code>{endpointUrl(state.endpointPath).href}</code>
        </Fact>
      )}
      <Fact name="Command">
        <code>
          <Text of={state.command.join(" ")} maxLength={MAX_FACT_LENGTH} />
        </code>
      </Fact>
      {exit && <TextFact name="Reason" of={exit.reason} />}
      {exit && <TextFact name="Likely cause" of={exit.likelyCause} />}
    </dl>
  );
}

function summary(connection: Connection, state: PageState | undefined): (typeof STATES)["ready"] {
  if (connection.kind === "lost") return { tone: "bad", words: "Not connected" };
  if (connection.kind === "unauthorized") return { tone: "wait", words: "Token needed" };
  if (state === undefined) return { tone: "wait", words: "Connecting" };
  return STATES[state.state];
}

/** Returns the times and numbers that belong to the state. */
function detail({ kind }: Connection, state: PageState): string {
  if (kind !== "live") return "";
  const parts: string[] = [];
  if (state.readyAt !== null) parts.push(`since ${timeText(state.readyAt)} (${durationText(Math.max(0, Date.now() - state.readyAt))})`);
  if (state.nextRetryAt !== null)
    parts.push(`next start in ${Math.max(0, Math.ceil((Date.parse(state.nextRetryAt) - Date.now()) / 1000))} s`);
  if (state.generation > 0) parts.push(`generation ${state.generation}`);
  if (state.pid !== null) parts.push(`pid ${state.pid}`);
  if (state.restarts > 0) parts.push(`${state.restarts} restart${state.restarts === 1 ? "" : "s"}`);
  return parts.join(", ");
}
