import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { type TokenEntry, usePage } from "./connection/use-page.ts";
import { Charts } from "./status/charts.tsx";
import { Generations } from "./status/generations.tsx";
import { Header } from "./status/header.tsx";
import { Log } from "./status/log.tsx";
import { Numbers } from "./status/numbers.tsx";
import { Requests } from "./status/requests.tsx";
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
        {model !== undefined && (
          <>
            <Generations generations={model.generations} />
            <Charts seconds={model.seconds} />
            <Numbers state={model.state} />
            <Tools state={model.state} token={entry.token} />
            <Requests requests={model.requests} />
            <Log lines={model.logLines} />
          </>
        )}
      </main>
    </>
  );
}
