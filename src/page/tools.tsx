import type { JSX } from "preact";
import { useEffect, useId, useMemo, useState } from "preact/hooks";
import { beginning } from "../json/text.ts";
import { CallPanel, type CallPanelProps, QuestionForm } from "./call.tsx";
import type { PageModel } from "./connection.ts";
import { type figuresOf, toolFigures } from "./figures.ts";
import { countText, durationText, endpointUrl, visibleLines } from "./format.ts";
import { type ListedTool, McpCalls, type Question } from "./mcp-calls.ts";
import { Button, Disclosure, ErrorText, JsonBlock, Text } from "./text.tsx";

const MAX_NAME_LENGTH = 200;
const MAX_DESCRIPTION_LENGTH = 2000;
const ANNOTATIONS = [
  { key: "readOnlyHint", yes: "read-only", no: "writes" },
  { key: "destructiveHint", yes: "destructive", no: "not destructive" },
  { key: "idempotentHint", yes: "idempotent", no: "not idempotent" },
  { key: "openWorldHint", yes: "open world", no: "closed world" },
] as const;

interface ToolProps extends CallPanelProps {
  /** Undefined without recent calls of the tool. */
  readonly figures: ReturnType<typeof figuresOf> | undefined;
}

function Tool({ figures, ...call }: ToolProps): JSX.Element {
  const id = useId();
  const { tool } = call;
  const { title, description, annotations, definition } = tool;
  // The others mean nothing for a tool that only reads (MCP 2025-11-25, schema, ToolAnnotations).
  const isRelevant = (key: string): boolean => annotations["readOnlyHint"] !== true || key === "readOnlyHint" || key === "openWorldHint";
  const hints = ANNOTATIONS.filter(({ key }) => typeof annotations[key] === "boolean" && isRelevant(key));
  return (
    <article aria-labelledby={id}>
      <Disclosure summary={<ToolSummary id={id} tool={tool} figures={figures} />}>
        {title !== "" && (
          <h4>
            <Text of={title} maxLength={MAX_NAME_LENGTH} />
          </h4>
        )}
        <p class="description" dir="auto">
          {visibleLines(beginning(description, MAX_DESCRIPTION_LENGTH))}
        </p>
        {hints.length > 0 && (
          <ul class="hints" aria-label="Annotations">
            {hints.map(({ key, yes, no }) => (
              <li key={key}>{annotations[key] === true ? yes : no}</li>
            ))}
          </ul>
        )}
        <CallPanel {...call} />
        <Disclosure summary="Definition">
          <JsonBlock of={definition} label="Definition" />
        </Disclosure>
      </Disclosure>
    </article>
  );
}

function ToolSummary({ id, tool, figures }: Pick<ToolProps, "tool" | "figures"> & { readonly id: string }): JSX.Element {
  return (
    <>
      <h3 id={id}>
        <Text of={tool.name} maxLength={MAX_NAME_LENGTH} />
      </h3>
      <span class="note" aria-hidden="true">
        <Text of={tool.description || tool.title} maxLength={MAX_NAME_LENGTH} />
      </span>
      <span>
        {figures?.calls ?? "–"}
        <span class="hidden-text"> calls</span>
      </span>
      <span class={figures?.errors ? "bad" : undefined}>
        {figures?.errors ?? "–"}
        <span class="hidden-text"> errors</span>
      </span>
      <span>
        <span class="hidden-text">p95 </span>
        {figures?.p95Ms === undefined ? "–" : durationText(figures.p95Ms)}
      </span>
    </>
  );
}

/**
 * Lists again after each change. The former list stays, with the forms that are open in it.
 *
 * @param serverKey changes with the server's generation; undefined while its tools must not be listed.
 */
function useTools(endpointPath: string, token: string | undefined, serverKey: string | undefined) {
  const [{ list, error }, setListing] = useState<{ readonly list?: readonly ListedTool[] | undefined; readonly error?: unknown }>({});
  const [questions, setQuestions] = useState<readonly Question[]>([]);
  const [changes, setChanges] = useState(0);
  const calls = useMemo(() => new McpCalls(endpointUrl(endpointPath), token, setQuestions), [endpointPath, token]);

  useEffect(() => {
    const close = (): void => calls.close();
    window.addEventListener("pagehide", close);
    return () => {
      window.removeEventListener("pagehide", close);
      close();
    };
  }, [calls]);

  useEffect(() => {
    if (serverKey === undefined) return undefined;
    let isCurrent = true;
    const finish = (found: readonly ListedTool[] | undefined, failure?: unknown): void => {
      if (isCurrent) setListing((former) => ({ list: found ?? former.list, error: failure }));
    };
    finish(undefined);
    calls.listTools().then(finish, (failure: unknown) => finish(undefined, failure));
    return () => {
      isCurrent = false;
    };
  }, [calls, serverKey, changes]);

  return { calls, list, error, questions, refresh: (): void => setChanges(changes + 1) };
}

export function Tools({
  endpointPath,
  model,
  token,
}: {
  readonly endpointPath: string;
  readonly model: PageModel;
  readonly token: string | undefined;
}): JSX.Element {
  const { isIsolated, hasOwnServerForQuestions, generation, readyAt } = model.state;
  const [isRequested, setIsRequested] = useState(!isIsolated);
  const mayList = isRequested && (readyAt !== null || isIsolated);
  const { calls, list, error, questions, refresh } = useTools(endpointPath, token, mayList ? `${generation} ${readyAt}` : undefined);
  const figures = toolFigures(model.requests.map(({ value }) => value));
  const [question] = questions;
  return (
    <>
      {question !== undefined && <QuestionForm key={question.key} question={question} waiting={questions.length - 1} />}
      {!isRequested && (
        <p>
          Each client gets a server process of its own. The list of tools starts one for this page.{" "}
          <Button text="List tools" onClick={() => setIsRequested(true)} />
        </p>
      )}
      {isRequested && list === undefined && error === undefined && (
        <p>{mayList ? "The tools are being listed…" : "The tools are listed when the server is ready."}</p>
      )}
      {error !== undefined && (
        <div class="error" role="alert">
          <p>The tools cannot be listed.</p>
          <ErrorText of={error} />
          <Button text="List tools again" onClick={refresh} />
        </div>
      )}
      {list !== undefined && (
        <ToolList tools={list} onRefresh={refresh}>
          {(tool) => <Tool tool={tool} figures={figures.get(tool.name)} asksElsewhere={hasOwnServerForQuestions} calls={calls} />}
        </ToolList>
      )}
      <Disclosure summary="Resources, prompts and everything else">
        <p>The MCP Inspector has them. For example, this command lists the resources:</p>
        <p class="command">
          <code>
            npx -y @modelcontextprotocol/inspector --cli {endpointUrl(endpointPath).href} --transport http
            {token !== undefined && ' --header "Authorization: Bearer TOKEN"'} --method resources/list
          </code>
        </p>
      </Disclosure>
    </>
  );
}

const MAX_SHOWN_TOOLS = 200;

function ToolList({
  tools,
  onRefresh,
  children,
}: {
  readonly tools: readonly ListedTool[];
  readonly onRefresh: () => void;
  readonly children: (tool: ListedTool) => JSX.Element;
}): JSX.Element {
  const [filter, setFilter] = useState("");
  const sought = filter.trim().toLowerCase();
  const matching = new Set(
    tools.filter(({ name, title, description }) => [name, title, description].some((text) => text.toLowerCase().includes(sought))),
  );
  // Those that do not match are hidden only, because a form may be open in them.
  const shown = tools.length <= MAX_SHOWN_TOOLS ? tools : [...matching].slice(0, MAX_SHOWN_TOOLS);
  return (
    <>
      <div class="row tools-head">
        <input
          type="search"
          aria-label="Filter"
          placeholder="Filter"
          value={filter}
          onInput={({ currentTarget }) => setFilter(currentTarget.value)}
        />
        <p role="status" class="note">
          {sought === "" ? countText(tools.length, "tool") : `${matching.size} of ${countText(tools.length, "tool")}`}
          {shown.length < matching.size && `, the first ${shown.length} are shown`}
        </p>
        <Button text="List again" onClick={onRefresh} />
      </div>
      <div class="columns" aria-hidden="true">
        <span>Tool</span>
        <span>Calls</span>
        <span>Errors</span>
        <span>p95</span>
      </div>
      <ul class="tools">
        {shown.map((tool) => (
          <li hidden={!matching.has(tool)} key={tool.key}>
            {children(tool)}
          </li>
        ))}
      </ul>
    </>
  );
}
