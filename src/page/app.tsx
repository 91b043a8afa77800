import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { Charts, Numbers } from "./charts.tsx";
import { type PageModel, usePage } from "./connection.ts";
import { Generations } from "./generations.tsx";
import { Header } from "./header.tsx";
import { Log } from "./log.tsx";
import { Requests } from "./requests.tsx";
import { Boundary, Section } from "./text.tsx";
import { Tools } from "./tools.tsx";

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
export function App(): JSX.Element {
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
  const isReady = state.state === "ready";
  const tools = useMemo(
    () => <Tools {...{ endpointPath, isIsolated, hasOwnServerForQuestions, isReady, token }} serverKey={`${generation} ${readyAt}`} />,
    [endpointPath, isIsolated, hasOwnServerForQuestions, generation, readyAt, isReady, token],
  );
  const sections = [
    useMemo(() => <Generations generations={generations} isReady={isReady} />, [generations, isReady]),
    useMemo(() => <Charts seconds={seconds} />, [seconds]),
    tools,
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
