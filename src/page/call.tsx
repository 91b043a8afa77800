import type { ElicitResult, Progress } from "@modelcontextprotocol/client";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ArgumentsForm } from "./arguments-form.tsx";
import { isJsonObject, type JsonObject } from "../json/text.ts";
import { durationText } from "./format.ts";
import { Boundary, Button, ErrorText, JsonBlock, Text, TextBlock } from "./text.tsx";
import type { ListedTool, McpCalls, Question } from "./mcp-calls.ts";

/** Raster images. An SVG can refer to other files, so it is shown as text. */
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const BASE64 = /^[\w+/]+={0,2}$/;
const MAX_PARTS = 100;

function ToolResult({ result: { structuredContent, isError, ...rest } }: { readonly result: JsonObject }): JSX.Element {
  const content: readonly unknown[] = Array.isArray(rest["content"]) ? rest["content"] : [];
  const shown = content.slice(0, MAX_PARTS);
  return (
    <div class={isError === true ? "result error" : "result"} role="group" aria-label="Result">
      {shown.map((part, index) => (
        // The parts of a result never change.
        <ResultPart key={String(index)} part={part} number={index + 1} />
      ))}
      {shown.length < content.length && <p class="note">{content.length - shown.length} more parts are not shown.</p>}
      {content.length === 0 && structuredContent === undefined && <p>The result is empty.</p>}
      {structuredContent !== undefined && (
        <>
          <p>Structured content:</p>
          <JsonBlock of={structuredContent} label="Structured content" />
        </>
      )}
    </div>
  );
}

function ResultPart({ part, number }: { readonly part: unknown; readonly number: number }): JSX.Element {
  const label = `Part ${number} of the result`;
  if (!isJsonObject(part)) return <JsonBlock of={part} label={label} />;
  const { type, text, mimeType, data, resource } = part;
  if (type === "text" && typeof text === "string") return <TextBlock of={text} label={label} />;
  if (type === "image" && typeof mimeType === "string" && IMAGE_TYPES.has(mimeType) && typeof data === "string" && BASE64.test(data))
    return <img src={`data:${mimeType};base64,${data}`} alt={`Image ${number} of the result, ${mimeType}`} />;
  if (type === "resource" && isJsonObject(resource) && typeof resource["text"] === "string" && typeof resource["uri"] === "string")
    return (
      <>
        <TextBlock of={`Resource ${resource["uri"]}`} label={`Address of part ${number}`} />
        <TextBlock of={resource["text"]} label={label} />
      </>
    );
  return <JsonBlock of={part} label={label} />;
}

type Call =
  | { readonly kind: "none" }
  | { readonly kind: "cancelled" }
  | { readonly kind: "running"; readonly progress: Progress | undefined }
  | { readonly kind: "done"; readonly result: JsonObject; readonly durationMs: number }
  | { readonly kind: "failed"; readonly error: unknown; readonly durationMs: number };

/** The call is cancelled when its panel is closed. */
function useCall(tool: ListedTool, calls: McpCalls) {
  const [call, setCall] = useState<Call>({ kind: "none" });
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  const start = (args: JsonObject, mayAsk: boolean): void => {
    const controller = new AbortController();
    current.current?.abort();
    current.current = controller;
    const startedAt = performance.now();
    const set = (next: Call): void => {
      if (current.current === controller) setCall(next);
    };
    set({ kind: "running", progress: undefined });
    const { signal } = controller;
    calls
      .callTool(tool, args, mayAsk, signal, (progress) => {
        if (!signal.aborted) set({ kind: "running", progress });
      })
      .then(
        (result) => set({ kind: "done", result, durationMs: performance.now() - startedAt }),
        (error: unknown) =>
          set(signal.aborted ? { kind: "cancelled" } : { kind: "failed", error, durationMs: performance.now() - startedAt }),
      );
  };
  return { call, start, cancel: () => current.current?.abort() };
}

export interface CallPanelProps {
  readonly tool: ListedTool;
  /** True if a call whose tool may ask runs in a process of its own. */
  readonly asksElsewhere: boolean;
  readonly calls: McpCalls;
}

export function CallPanel({ tool, asksElsewhere, calls }: CallPanelProps): JSX.Element {
  const [chosen, setChosen] = useState<boolean>();
  const mayAsk = chosen ?? !asksElsewhere;
  const { call, start, cancel } = useCall(tool, calls);
  const callButton = useRef<HTMLButtonElement>(null);
  const onCancel = (): void => {
    callButton.current?.focus();
    cancel();
  };
  const isRunning = call.kind === "running";
  const panel = useRef<HTMLDivElement>(null);
  useEffect(() => panel.current?.scrollIntoView({ block: "nearest" }), []);
  return (
    <div class="call" ref={panel}>
      <ArgumentsForm
        of={tool.definition["inputSchema"]}
        // A sample must not name what is to be deleted.
        isFilled={tool.annotations["destructiveHint"] !== true}
        onSubmit={(args) => !isRunning && start(args, mayAsk)}
      >
        {/* A disabled button would lose the focus. */}
        <button type="submit" class="primary" aria-disabled={isRunning} ref={callButton}>
          Call
        </button>
        {isRunning && <Button text="Cancel" onClick={onCancel} />}
        <label class="switch">
          <input type="checkbox" checked={mayAsk} onInput={({ currentTarget }) => setChosen(currentTarget.checked)} /> Let the tool ask
          questions
        </label>
        {asksElsewhere && <span class="note">Such a call runs in a server process of its own.</span>}
      </ArgumentsForm>
      <Outcome call={call} />
    </div>
  );
}

function Outcome({ call }: { readonly call: Call }): JSX.Element {
  return (
    <>
      <p role="status" class="outcome">
        {outcomeOf(call)}
      </p>
      {call.kind === "running" && call.progress !== undefined && <CallProgress progress={call.progress} />}
      {call.kind === "done" && (
        // A result that cannot be shown must not hide the next one.
        <Boundary key={call.durationMs}>
          <ToolResult result={call.result} />
        </Boundary>
      )}
      {call.kind === "failed" && (
        <div class="error">
          <ErrorText of={call.error} />
        </div>
      )}
    </>
  );
}

function CallProgress({ progress: { progress, total, message } }: { readonly progress: Progress }): JSX.Element {
  return (
    <p class="row">
      {/* Without a value, it shows that something goes on. */}
      <progress
        aria-label="Progress of the call"
        {...(total !== undefined && total > 0 && { max: total, value: Math.min(progress, total) })}
      />
      <span>
        {progress}
        {total !== undefined && ` of ${total}`} {message !== undefined && <Text of={message} />}
      </span>
    </p>
  );
}

function outcomeOf(call: Call): string {
  if (call.kind === "none") return "";
  if (call.kind === "running") return "The call is running…";
  if (call.kind === "cancelled") return "The call is cancelled.";
  const duration = durationText(call.durationMs);
  if (call.kind === "failed") return `The call failed after ${duration}.`;
  return call.result["isError"] === true ? `The tool reports an error after ${duration}.` : `The call ended after ${duration}.`;
}

/** It takes the focus, and gives it back. @param waiting the number of further questions. */
export function QuestionForm({ question, waiting }: { readonly question: Question; readonly waiting: number }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    const former = document.activeElement;
    heading.current?.focus();
    return () => {
      if (former instanceof HTMLElement && former.isConnected) former.focus();
    };
  }, []);
  const send = (content: JsonObject): void =>
    question.answer({ action: "accept", content: content as NonNullable<ElicitResult["content"]> });
  return (
    <div class="question" role="group" aria-labelledby="question-title">
      <h3 id="question-title" ref={heading} tabIndex={-1}>
        The tool asks
      </h3>
      <TextBlock of={question.message} label="Question" />
      {waiting > 0 && <p class="note">Questions after this one: {waiting}.</p>}
      <ArgumentsForm of={question.schema} isFilled={false} onSubmit={send}>
        <button type="submit" class="primary">
          Send answer
        </button>
        <Button text="Decline" onClick={() => question.answer({ action: "decline" })} />
        <Button text="Cancel question" onClick={() => question.answer({ action: "cancel" })} />
      </ArgumentsForm>
    </div>
  );
}
