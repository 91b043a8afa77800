import { type JSX, render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { PageState } from "../http/page-update.ts";
import { type Connection, type PageModel, usePage } from "./connection.ts";
import { countText, durationText, endpointUrl } from "./format.ts";
import { Load, Log, Requests } from "./history.tsx";
import { Band, Errors, ExitDetails, FourFigures } from "./overview.tsx";
import { Boundary, Fact, MAX_FACT_LENGTH, Section, Text } from "./text.tsx";
import { Tools } from "./tools.tsx";

const STATES: Readonly<Record<PageState["state"], { readonly tone: string; readonly word: string; readonly means: string }>> = {
  ready: { tone: "good", word: "Ready", means: "" },
  starting: { tone: "wait", word: "Starting", means: "The server runs, and has not answered yet." },
  "backing-off": { tone: "bad", word: "Restarting", means: "The server has ended." },
  stopping: { tone: "wait", word: "Stopping", means: "The sidecar ends." },
  failed: { tone: "bad", word: "Failed", means: "The server does not stay up." },
};

function Header({ connection, state }: { readonly connection: Connection; readonly state: PageState | undefined }): JSX.Element {
  const { tone, word, means } = summary(connection, state);
  useEffect(() => {
    document.title = `${word} – ${location.host}`;
  }, [word]);
  const exit = connection.kind === "live" && state?.state !== "ready" ? state?.lastExit : undefined;
  return (
    <header>
      <div class="top">
        <h1>claw-mcp-stdio {state !== undefined && <small>{state.version}</small>}</h1>
        {state !== undefined && (
          <nav aria-label="Sections">
            <a href="#tools-title">Tools</a> <a href="#requests-title">Requests</a> <a href="#log-title">Log</a>{" "}
            <a href="#load-title">Load</a>
          </nav>
        )}
      </div>
      <p class="state">
        <span class={`sign ${tone}`} aria-hidden="true" />
        {/* Only the word that changes with the state: a counter in it would be read aloud each second. */}
        <strong role="status" id="state">
          {word}
        </strong>
        <span>
          <Text of={means} /> {connection.kind === "live" && state !== undefined && detail(state)}
        </span>
      </p>
      {exit && (
        <div class="exit">
          <p class="error">
            <Text of={exit.reason} maxLength={MAX_FACT_LENGTH} />
          </p>
          <ExitDetails exit={exit} />
        </div>
      )}
      {state !== undefined && <ServerFacts state={state} />}
    </header>
  );
}

function ServerFacts({ state: { endpointPath, command, generation, pid } }: { readonly state: PageState }): JSX.Element {
  return (
    <dl class="facts">
      <Fact name="Command">
        <code>
          <Text of={command.join(" ")} maxLength={MAX_FACT_LENGTH} />
        </code>
      </Fact>
      {endpointPath !== null && (
        <Fact name="MCP endpoint">
          <code>{endpointUrl(endpointPath).href}</code>
        </Fact>
      )}
      {pid !== null && (
        <Fact name="Process">
          pid {pid}, generation {generation}
        </Fact>
      )}
    </dl>
  );
}

function summary(connection: Connection, state: PageState | undefined): (typeof STATES)["ready"] {
  if (connection.kind === "lost") {
    const means = state === undefined ? connection.reason : `${connection.reason} Below is the last state that it received.`;
    return { tone: "bad", word: "Not connected", means };
  }
  if (connection.kind === "unauthorized") return { tone: "wait", word: "Token needed", means: "" };
  return state === undefined ? { tone: "wait", word: "Connecting", means: "" } : STATES[state.state];
}

function detail({ state, readyAt, nextRetryAt, restarts }: PageState): string {
  const after = restarts === 0 ? "" : `, after ${countText(restarts, "restart")}`;
  if (readyAt !== null) return `for ${durationText(Math.max(0, Date.now() - Date.parse(readyAt)))}${after}`;
  if (nextRetryAt !== null)
    return `The next start is in ${Math.max(0, Math.ceil((Date.parse(nextRetryAt) - Date.now()) / 1000))} s${after}.`;
  return state === "failed" ? `It is not started again${after}.` : "";
}

function TokenForm({ isWrong, onToken }: { readonly isWrong: boolean; readonly onToken: (token: string) => void }): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (token !== "") onToken(token);
  };
  return (
    <Section id="authorization" title="Authorization">
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

/** The token is only in memory: the browser is not asked to keep it. */
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

function Sections({ model, token }: { readonly model: PageModel; readonly token: string | undefined }): JSX.Element {
  const { endpointPath } = model.state;
  return (
    <>
      <Boundary>
        <Band model={model} />
        <FourFigures model={model} />
      </Boundary>
      <div class="two">
        <Boundary>
          <Section id="tools" title="Tools">
            {endpointPath === null ? (
              <p>The MCP endpoint has another address, at which clients list and call the tools.</p>
            ) : (
              <Tools endpointPath={endpointPath} model={model} token={token} />
            )}
          </Section>
        </Boundary>
        <Boundary>
          <Errors model={model} />
        </Boundary>
      </div>
      <Boundary>
        <Requests requests={model.requests} />
        <Log lines={model.logLines} />
        <Load state={model.state} />
      </Boundary>
    </>
  );
}

const root = document.querySelector("#page");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
