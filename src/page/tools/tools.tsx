import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { countText } from "../text/format.ts";
import { ErrorText } from "./error-text.tsx";
import { InspectorCommand } from "./inspector-command.tsx";
import type { ListedTool, ToolList } from "./listed-tool.ts";
import { Questions } from "./questions.tsx";
import { ToolEntry } from "./tool-entry.tsx";
import { listOf, type LoadCalls, useTools } from "./use-tools.ts";

const MIN_TOOLS_FOR_FILTER = 11;
const MAX_SHOWN_TOOLS = 200;

interface Props {
  /** Null if the MCP endpoint has another address. */
  readonly endpointPath: string | null;
  readonly isIsolated: boolean;
  readonly hasOwnServerForQuestions: boolean;
  readonly isReady: boolean;
  /** Changes with the server's generation. */
  readonly serverKey: string;
  readonly token: string | undefined;
}

/** The server's tools, to read and to call. */
export function Tools({ endpointPath, ...rest }: Props): JSX.Element {
  return (
    <section aria-labelledby="tools-title">
      <h2 id="tools-title">Tools</h2>
      {endpointPath === null ? (
        <p>The MCP endpoint has another address, at which clients list and call the tools.</p>
      ) : (
        <EndpointTools {...rest} endpointPath={endpointPath} />
      )}
    </section>
  );
}

function EndpointTools(props: Props & { readonly endpointPath: string }): JSX.Element {
  const { endpointPath, isIsolated, hasOwnServerForQuestions, isReady, serverKey, token } = props;
  const [isRequested, setIsRequested] = useState(!isIsolated);
  const mayList = isRequested && (isReady || isIsolated);
  const { loadCalls, listing, questions, refresh } = useTools(endpointPath, token, mayList ? serverKey : undefined);
  const list = listOf(listing);
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
      {list !== undefined && <ToolListing list={list} asksElsewhere={hasOwnServerForQuestions} loadCalls={loadCalls} onRefresh={refresh} />}
      <InspectorCommand endpointPath={endpointPath} hasToken={token !== undefined} />
    </>
  );
}

interface ListingProps {
  readonly list: ToolList;
  readonly asksElsewhere: boolean;
  readonly loadCalls: LoadCalls;
  readonly onRefresh: () => void;
}

function ToolListing({ list: { tools, invalidCount }, asksElsewhere, loadCalls, onRefresh }: ListingProps): JSX.Element {
  const [filter, setFilter] = useState("");
  const matching = new Set(tools.filter((tool) => matches(tool, filter.trim().toLowerCase())));
  // Those that do not match are hidden only, because a form may be open in them.
  const shown = tools.length <= MAX_SHOWN_TOOLS ? tools : [...matching].slice(0, MAX_SHOWN_TOOLS);
  return (
    <>
      <div class="row">
        <p role="status">
          {filter.trim() === "" ? countText(tools.length, "tool") : `${matching.size} of ${countText(tools.length, "tool")}`}
          {shown.length < matching.size && `, the first ${shown.length} are shown`}
          {invalidCount > 0 && `; ${countText(invalidCount, "tool")} without a name`}
        </p>
        <button type="button" onClick={onRefresh}>
          List again
        </button>
      </div>
      {tools.length >= MIN_TOOLS_FOR_FILTER && (
        <p class="row">
          <label for="filter">Filter</label>
          <input id="filter" type="search" value={filter} onInput={({ currentTarget }) => setFilter(currentTarget.value)} />
        </p>
      )}
      <ul class="tools">
        {shown.map((tool, index) => (
          // A server may list a name twice.
          <li
            hidden={!matching.has(tool)}
            key={`${tool.name} ${tools.findIndex((each) => each.name === tool.name) === tools.indexOf(tool) ? "" : index}`}
          >
            <ToolEntry tool={tool} asksElsewhere={asksElsewhere} loadCalls={loadCalls} />
          </li>
        ))}
      </ul>
    </>
  );
}

function matches({ name, title, description }: ListedTool, filter: string): boolean {
  return filter === "" || [name, title, description].some((text) => text?.toLowerCase().includes(filter));
}
