import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import type { PageState } from "../http/page-update.ts";
import { countText, endpointUrl, visibleLines } from "./format.ts";
import type { ListedTool, LoadCalls, McpCalls, Question, ToolList } from "./mcp-calls.ts";
import { Button, ErrorText, JsonBlock, Section, Text, TextBlock } from "./text.tsx";

/** A part of the page whose code is loaded when it is first shown. */
function Loaded<Module>({
  load,
  children,
}: {
  readonly load: () => Promise<Module>;
  readonly children: (module: Module) => ComponentChildren;
}): JSX.Element {
  const [state, setState] = useState<{ readonly module: Module } | "loading" | "failed">("loading");
  useEffect(() => {
    load().then(
      (module) => setState({ module }),
      () => setState("failed"),
    );
  }, []);
  if (state === "loading") return <p>Loading…</p>;
  // The sidecar may have been replaced by one of another version.
  if (state === "failed") return <p class="error">This part of the page cannot be loaded. Reload the page.</p>;
  return <>{children(state.module)}</>;
}

const MAX_NAME_LENGTH = 200;
const ANNOTATIONS = [
  { key: "readOnlyHint", yes: "read-only", no: "writes" },
  { key: "destructiveHint", yes: "destructive", no: "not destructive" },
  { key: "idempotentHint", yes: "idempotent", no: "not idempotent" },
  { key: "openWorldHint", yes: "open world", no: "closed world" },
] as const;

/** A tool with its description, its schema, and a form to call it. */
function ToolEntry({
  tool,
  asksElsewhere,
  loadCalls,
}: {
  readonly tool: ListedTool;
  readonly asksElsewhere: boolean;
  readonly loadCalls: LoadCalls;
}): JSX.Element {
  const [isCalling, setIsCalling] = useState(false);
  const id = useId();
  const { name, title, description, annotations, inputSchema, outputSchema, needsTask } = tool;
  // The others mean nothing for a tool that only reads (MCP 2025-11-25, schema, ToolAnnotations).
  const isRelevant = (key: string): boolean => annotations["readOnlyHint"] !== true || key === "readOnlyHint" || key === "openWorldHint";
  const hints = ANNOTATIONS.filter(({ key }) => typeof annotations[key] === "boolean" && isRelevant(key));
  return (
    <article class="tool" aria-labelledby={`${id}-name`}>
      <h3>
        <code id={`${id}-name`}>
          <Text of={name} maxLength={MAX_NAME_LENGTH} />
        </code>{" "}
        {title !== undefined && title !== name && (
          <small>
            <Text of={title} maxLength={MAX_NAME_LENGTH} />
          </small>
        )}
      </h3>
      {hints.length > 0 && (
        <ul class="hints" aria-label="Annotations">
          {hints.map(({ key, yes, no }) => (
            <li key={key}>{annotations[key] === true ? yes : no}</li>
          ))}
        </ul>
      )}
      {description !== undefined && description !== "" && <Description of={description} />}
      <Schema name="Input schema" schema={inputSchema} />
      {outputSchema !== undefined && <Schema name="Output schema" schema={outputSchema} />}
      {needsTask ? (
        <p class="note">It runs only as a task, which the page cannot create.</p>
      ) : (
        <>
          <button type="button" aria-expanded={isCalling} aria-controls={`${id}-call`} onClick={() => setIsCalling(!isCalling)}>
            {isCalling ? "Close" : "Call…"}
            <span class="hidden-text">
              {" "}
              <Text of={name} maxLength={MAX_NAME_LENGTH} />
            </span>
          </button>
          <div id={`${id}-call`} hidden={!isCalling}>
            {isCalling && (
              <Loaded load={() => import("./call.tsx")}>
                {({ CallPanel }) => <CallPanel tool={tool} id={id} asksElsewhere={asksElsewhere} loadCalls={loadCalls} />}
              </Loaded>
            )}
          </div>
        </>
      )}
    </article>
  );
}

const SHORT_DESCRIPTION_LENGTH = 600;
const MAX_DESCRIPTION_LENGTH = 2000;

function Description({ of }: { readonly of: string }): JSX.Element {
  if (of.length <= SHORT_DESCRIPTION_LENGTH)
    return (
      <p class="description" dir="auto">
        {visibleLines(of)}
      </p>
    );
  return <TextBlock of={of} label="Description" firstLength={MAX_DESCRIPTION_LENGTH} />;
}

function Schema({ name, schema }: { readonly name: string; readonly schema: unknown }): JSX.Element {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>{name}</summary>
      {isOpen && <JsonBlock of={schema} label={name} />}
    </details>
  );
}

/** The command of the MCP Inspector for this endpoint, for resources, prompts, and everything else. */
function InspectorCommand({ endpointPath, hasToken }: { readonly endpointPath: string; readonly hasToken: boolean }): JSX.Element {
  const token = hasToken ? ' --header "Authorization: Bearer TOKEN"' : "";
  const command = `npx -y @modelcontextprotocol/inspector --cli ${endpointUrl(endpointPath).href} --transport http${token} --method resources/list`;
  return (
    <details>
      <summary>Resources, prompts and everything else</summary>
      <p>
        The{" "}
        <a href="https://github.com/modelcontextprotocol/inspector" rel="noreferrer noopener" target="_blank">
          MCP Inspector
        </a>{" "}
        has them. For example, this command lists the resources:
      </p>
      <p class="command">
        <code>{command}</code>
      </p>
    </details>
  );
}

function Questions({ questions }: { readonly questions: readonly Question[] }): JSX.Element | null {
  const [first] = questions;
  if (first === undefined) return null;
  return (
    <Loaded load={() => import("./call.tsx")}>
      {({ QuestionForm }) => <QuestionForm key={first.key} question={first} waiting={questions.length - 1} />}
    </Loaded>
  );
}

/**
 * Lists the server's tools, and again after each change. The former list stays, with the forms that are open in it.
 *
 * @param serverKey changes with the server's generation; undefined while its tools must not be listed.
 */
function useTools(endpointPath: string, token: string | undefined, serverKey: string | undefined) {
  const [{ list, error }, setListing] = useState<{ readonly list?: ToolList | undefined; readonly error?: unknown }>({});
  const [questions, setQuestions] = useState<readonly Question[]>([]);
  const [changes, setChanges] = useState(0);
  const { loadCalls, close } = useMemo(() => {
    let calls: Promise<McpCalls> | undefined;
    const load: LoadCalls = () =>
      (calls ??= import("./mcp-calls.ts").then((module) => new module.McpCalls(endpointUrl(endpointPath), token, setQuestions)));
    return { loadCalls: load, close: (): void => void calls?.then((each) => each.close()) };
  }, [endpointPath, token]);

  useEffect(() => {
    window.addEventListener("pagehide", close);
    return () => {
      window.removeEventListener("pagehide", close);
      close();
    };
  }, [close]);

  useEffect(() => {
    if (serverKey === undefined) return undefined;
    let isCurrent = true;
    const finish = (found: ToolList | undefined, failure?: unknown): void => {
      if (isCurrent) setListing((former) => ({ list: found ?? former.list, error: failure }));
    };
    finish(undefined);
    loadCalls()
      .then((calls) => calls.listTools())
      .then(finish, (failure: unknown) => finish(undefined, failure));
    return () => {
      isCurrent = false;
    };
  }, [loadCalls, serverKey, changes]);

  return { loadCalls, list, error, questions, refresh: (): void => setChanges(changes + 1) };
}

const MIN_TOOLS_FOR_FILTER = 11;
const MAX_SHOWN_TOOLS = 200;

/** The server's tools, to read and to call. */
export function Tools({ state, token }: { readonly state: PageState; readonly token: string | undefined }): JSX.Element {
  const { endpointPath } = state;
  return (
    <Section id="tools" title="Tools">
      {endpointPath === null ? (
        <p>The MCP endpoint has another address, at which clients list and call the tools.</p>
      ) : (
        <EndpointTools endpointPath={endpointPath} state={state} token={token} />
      )}
    </Section>
  );
}

function EndpointTools({
  endpointPath,
  state: { isIsolated, hasOwnServerForQuestions, generation, readyAt },
  token,
}: {
  readonly endpointPath: string;
  readonly state: PageState;
  readonly token: string | undefined;
}): JSX.Element {
  const [isRequested, setIsRequested] = useState(!isIsolated);
  const mayList = isRequested && (readyAt !== null || isIsolated);
  const { loadCalls, list, error, questions, refresh } = useTools(endpointPath, token, mayList ? `${generation} ${readyAt}` : undefined);
  const isWaiting = list === undefined && error === undefined && isRequested;
  return (
    <>
      <Questions questions={questions} />
      {!isRequested && (
        <p>
          Each client gets a server process of its own. The list of tools starts one for this page.{" "}
          <Button text="List tools" onClick={() => setIsRequested(true)} />
        </p>
      )}
      {isWaiting && <p>{mayList ? "The tools are being listed…" : "The tools are listed when the server is ready."}</p>}
      {error !== undefined && (
        <div class="error" role="alert">
          <p>The tools cannot be listed.</p>
          <ErrorText of={error} />
          <Button text="List tools again" onClick={refresh} />
        </div>
      )}
      {list !== undefined && <ToolListing list={list} asksElsewhere={hasOwnServerForQuestions} loadCalls={loadCalls} onRefresh={refresh} />}
      <InspectorCommand endpointPath={endpointPath} hasToken={token !== undefined} />
    </>
  );
}

function ToolListing({
  list: { tools, invalidCount },
  asksElsewhere,
  loadCalls,
  onRefresh,
}: {
  readonly list: ToolList;
  readonly asksElsewhere: boolean;
  readonly loadCalls: LoadCalls;
  readonly onRefresh: () => void;
}): JSX.Element {
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
        <Button text="List again" onClick={onRefresh} />
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
