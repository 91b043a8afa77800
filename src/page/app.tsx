import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { PageModel } from "./connection/page-model.ts";
import { type TokenEntry, usePage } from "./connection/use-page.ts";
import { Charts } from "./status/charts.tsx";
import { Generations } from "./status/generations.tsx";
import { Header } from "./status/header.tsx";
import { Log } from "./status/log.tsx";
import { Numbers } from "./status/numbers.tsx";
import { Requests } from "./status/requests.tsx";
import { Boundary } from "./text/boundary.tsx";
import { TokenForm } from "./token-form.tsx";
import { Tools } from "./tools/tools.tsx";

/** The whole page. The token is only in its memory. */
export function App(): JSX.Element {
  // An object, so that a token can be tried twice.
  const [entry, setEntry] = useState<TokenEntry>({ token: undefined });
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
  const { endpointPath, isIsolated, hasOwnServerForQuestions, generation, readySince } = state;
  const isReady = state.state === "ready";
  const tools = useMemo(
    () => <Tools {...{ endpointPath, isIsolated, hasOwnServerForQuestions, isReady, token }} serverKey={`${generation} ${readySince}`} />,
    [endpointPath, isIsolated, hasOwnServerForQuestions, generation, readySince, isReady, token],
  );
  return (
    <>
      {useMemo(
        () => (
          <Boundary>
            <Generations generations={generations} isReady={isReady} />
          </Boundary>
        ),
        [generations, isReady],
      )}
      {useMemo(
        () => (
          <Boundary>
            <Charts seconds={seconds} />
          </Boundary>
        ),
        [seconds],
      )}
      <Boundary>{tools}</Boundary>
      {useMemo(
        () => (
          <Boundary>
            <Requests requests={requests} />
          </Boundary>
        ),
        [requests],
      )}
      {useMemo(
        () => (
          <Boundary>
            <Log lines={logLines} />
          </Boundary>
        ),
        [logLines],
      )}
      <Boundary>
        <Numbers state={state} />
      </Boundary>
    </>
  );
}
