import { type JSX, render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { PageState } from "../http/page-update.ts";
import { Charts, Numbers } from "./charts.tsx";
import { type Connection, type PageModel, usePage } from "./connection.ts";
import { Generations } from "./generations.tsx";
import { durationText, endpointUrl, timeText } from "./format.ts";
import { Log, Requests } from "./history.tsx";
import { Boundary, Fact, MAX_FACT_LENGTH, Section, Text, TextFact } from "./text.tsx";
import { Tools } from "./tools.tsx";

/** The class of the sign, and the words of each state. */
const STATES: Readonly<Record<PageState["state"], { readonly tone: string; readonly words: string }>> = {
  ready: { tone: "good", words: "Ready" },
  starting: { tone: "wait", words: "Starting" },
  "backing-off": { tone: "bad", words: "Restarting" },
  stopping: { tone: "wait", words: "Stopping" },
  failed: { tone: "bad", words: "Failed" },
};

function Header({ connection, state }: { readonly connection: Connection; readonly state: PageState | undefined }): JSX.Element {
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
  if (state.readyAt !== null)
    parts.push(`since ${timeText(state.readyAt)} (${durationText(Math.max(0, Date.now() - Date.parse(state.readyAt)))})`);
  if (state.nextRetryAt !== null)
    parts.push(`next start in ${Math.max(0, Math.ceil((Date.parse(state.nextRetryAt) - Date.now()) / 1000))} s`);
  if (state.generation > 0) parts.push(`generation ${state.generation}`);
  if (state.pid !== null) parts.push(`pid ${state.pid}`);
  if (state.restarts > 0) parts.push(`${state.restarts} restart${state.restarts === 1 ? "" : "s"}`);
  return parts.join(", ");
}

/** The form for the sidecar's token. The browser is not asked to keep it. */
function TokenForm({ isWrong, onToken }: { readonly isWrong: boolean; readonly onToken: (token: string) => void }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (token !== "") onToken(token);
  };
  return (
    <Section id="token" title="Authorization">
      <p>This sidecar needs a token. The page keeps it in memory until you close or reload the page.</p>
      <form class="row" onSubmit={submit}>
        <label for="token">Token</label>
        <input id="token" ref={field} type="password" autocomplete="off" required aria-describedby={isWrong ? "token-error" : undefined} />
        <button type="submit">Open</button>
      </form>
      {isWrong && (
        <p id="token-error" role="alert" class="error">
          The token is wrong.
        </p>
      )}
    </Section>
  );
}

/** The whole page. The token is only in its memory. */
function App(): JSX.Element {
  // An object, so that a token can be tried twice.
  const [entry, setEntry] = useState<{ readonly token: string | undefined }>({ token: undefined });
  const { connection, model } = usePage(entry);
  return (
    <>
      <Header connection={connection} state={model?.state} />
      <main>
        {connection.kind === "unauthorized" && <TokenForm isWrong={connection.isWrong} onToken={(token) => setEntry({ token })} />}
        {model !== undefined && <Sections model={model} token={entry.token} />}
      </main>
    </>
  );
}

/** The sections. Those without news are not rendered again with each update. */
function Sections({ model, token }: { readonly model: PageModel; readonly token: string | undefined }): JSX.Element {
  const { state, generations, seconds, requests, logLines } = model;
  const { endpointPath, isIsolated, hasOwnServerForQuestions, generation, readyAt } = state;
  const isReady = readyAt !== null;
  const sections = [
    useMemo(() => <Generations generations={generations} isReady={isReady} />, [generations, isReady]),
    useMemo(() => <Charts seconds={seconds} />, [seconds]),
    useMemo(() => <Tools state={state} token={token} />, [endpointPath, isIsolated, hasOwnServerForQuestions, generation, readyAt, token]),
    useMemo(() => <Requests requests={requests} />, [requests]),
    useMemo(() => <Log lines={logLines} />, [logLines]),
    <Numbers state={state} />,
  ];
  return (
    <>
      {sections.map((section, index) => (
        // Their order never changes.
        <Boundary key={String(index)}>{section}</Boundary>
      ))}
    </>
  );
}

// The content security policy forbids generated code. Otherwise zod would try it once when it is loaded, and browsers would report that.
Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });

const root = document.querySelector("#page");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
