import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PageState } from "../../http/page/page-update.ts";
import { countText } from "../text/format.ts";
import { ErrorText } from "./error-text.tsx";
import { InspectorCommand } from "./inspector-command.tsx";
import type { ListedTool, ToolList } from "./listed-tool.ts";
import { Questions } from "./questions.tsx";
import { ToolEntry } from "./tool-entry.tsx";
import { type LoadCalls, useTools } from "./use-tools.ts";

const MIN_TOOLS_FOR_FILTER = 11;
const MAX_SHOWN_TOOLS = 200;

interface Props {
  readonly state: PageState;
  readonly token: string | undefined;
}

/** The server's tools, to read and to call. */
export function Tools({ state, token }: Props): JSX.Element {
  return (
    <section aria-labelledby="tools-title">
      <h2 id="tools-title">Tools</h2>
      {state.endpointPath === null ? (
        <p>The MCP endpoint has an address of its own. List and call the tools there.</p>
      ) : (
        <EndpointTools state={state} token={token} endpointPath={state.endpointPath} />
      )}
    </section>
  );
}

function EndpointTools({ state, token, endpointPath }: Props & { readonly endpointPath: string }): JSX.Element {
  const [isRequested, setIsRequested] = useState(!state.isIsolated);
  const isReady = state.state === "ready" || state.isIsolated;
  const serverKey = isRequested && isReady ? `${state.generation} ${state.readySince}` : undefined;
  const { loadCalls, listing, questions, refresh } = useTools(endpointPath, token, serverKey);
  return (
    <>
      <Questions questions={questions} />
      {!isRequested && (
        <p>
          Each client gets a server process of its own. The list of tools starts one for this page.{" "}
          <button type="button" onClick={() => setIsRequested(true)}>
            List tools
          </button>
        </p>
      )}
      {isRequested && listing.kind === "waiting" && <p>The tools are listed when the server is ready.</p>}
      {listing.kind === "listing" && <p>The tools are being listed…</p>}
      {listing.kind === "failed" && (
        <div class="error" role="alert">
          <p>The tools cannot be listed.</p>
          <ErrorText of={listing.error} />
          <button type="button" onClick={refresh}>
            List tools again
          </button>
        </div>
      )}
      {listing.kind === "listed" && <ToolListing list={listing.list} state={state} loadCalls={loadCalls} />}
      <InspectorCommand endpointPath={endpointPath} hasToken={token !== undefined} />
    </>
  );
}

interface ListingProps {
  readonly list: ToolList;
  readonly state: PageState;
  readonly loadCalls: LoadCalls;
}

function ToolListing({ list: { tools, invalidCount }, state, loadCalls }: ListingProps): JSX.Element {
  const [filter, setFilter] = useState("");
  const matching = tools.filter((tool) => matches(tool, filter.trim().toLowerCase()));
  const shown = matching.slice(0, MAX_SHOWN_TOOLS);
  return (
    <>
      <p role="status">
        {filter.trim() === "" ? countText(tools.length, "tool") : `${matching.length} of ${countText(tools.length, "tool")}`}
        {shown.length < matching.length && `, the first ${shown.length} are shown`}
        {invalidCount > 0 && `; ${countText(invalidCount, "tool")} without a name`}
      </p>
      {tools.length >= MIN_TOOLS_FOR_FILTER && (
        <p class="row">
          <label for="filter">Filter</label>
          <input id="filter" type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        </p>
      )}
      <ul class="tools">
        {shown.map((tool, index) => (
          // A server may list a name twice.
          <li key={`${tool.name} ${tools.findIndex((each) => each.name === tool.name) === tools.indexOf(tool) ? "" : index}`}>
            <ToolEntry tool={tool} asksElsewhere={state.hasOwnServerForQuestions} loadCalls={loadCalls} />
          </li>
        ))}
      </ul>
    </>
  );
}

function matches({ name, title, description }: ListedTool, filter: string): boolean {
  return filter === "" || [name, title, description].some((text) => text?.toLowerCase().includes(filter));
}
