import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { JsonBlock, Text, TextBlock } from "../text/text.tsx";
import { visibleLines } from "../text/visible.ts";
import type { ListedTool } from "./listed-tool.ts";
import { Loaded } from "./loaded.tsx";
import type { LoadCalls } from "./use-tools.ts";

const MAX_NAME_LENGTH = 200;
const ANNOTATIONS = [
  { key: "readOnlyHint", yes: "read-only", no: "writes" },
  { key: "destructiveHint", yes: "destructive", no: "not destructive" },
  { key: "idempotentHint", yes: "idempotent", no: "not idempotent" },
  { key: "openWorldHint", yes: "open world", no: "closed world" },
] as const;

interface Props {
  readonly tool: ListedTool;
  readonly asksElsewhere: boolean;
  readonly loadCalls: LoadCalls;
}

/** A tool with its description, its schema, and a form to call it. */
export function ToolEntry({ tool, asksElsewhere, loadCalls }: Props): JSX.Element {
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
              <Loaded load={() => import("../call/call-panel.tsx")}>
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
