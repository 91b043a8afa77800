import type { Progress } from "@modelcontextprotocol/client";
import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { formSchemaOf } from "../form/form-schema.ts";
import { durationText } from "../text/format.ts";
import { Boundary } from "../text/boundary.tsx";
import { Text } from "../text/text.tsx";
import { ErrorText } from "../tools/error-text.tsx";
import type { ListedTool } from "../tools/listed-tool.ts";
import type { LoadCalls } from "../tools/use-tools.ts";
import { ArgumentsForm } from "./arguments-form.tsx";
import { ToolResult } from "./tool-result.tsx";
import { type Call, useCall } from "./use-call.ts";

interface Props {
  readonly tool: ListedTool;
  /** Unique on the page. */
  readonly id: string;
  /** True if a call whose tool may ask runs in a process of its own. */
  readonly asksElsewhere: boolean;
  readonly loadCalls: LoadCalls;
}

/** The form to call a tool, and the result of the last call. */
export function CallPanel({ tool, id, asksElsewhere, loadCalls }: Props): JSX.Element {
  const schema = useMemo(() => formSchemaOf(tool.inputSchema), [tool]);
  const [value, setValue] = useState<unknown>({});
  const [chosen, setChosen] = useState<boolean>();
  const mayAsk = chosen ?? !asksElsewhere;
  const { call, start, cancel } = useCall(tool, loadCalls);
  const callButton = useRef<HTMLButtonElement>(null);
  const onCancel = (): void => {
    callButton.current?.focus();
    cancel();
  };
  const isRunning = call.kind === "running";
  // A result may be large, and each key in the form renders the panel.
  const result = useMemo(
    () =>
      call.kind === "done" && (
        <Boundary>
          <ToolResult result={call.result} />
        </Boundary>
      ),
    [call],
  );
  return (
    <div class="call">
      <ArgumentsForm
        id={`${id}-arguments`}
        schema={schema}
        value={value}
        onChange={setValue}
        onSubmit={(args) => !isRunning && start(args, mayAsk)}
      >
        <label class="switch">
          <input type="checkbox" checked={mayAsk} onInput={({ currentTarget }) => setChosen(currentTarget.checked)} /> Let the tool ask
          questions
        </label>
        {asksElsewhere && <span class="note">Such a call runs in a server process of its own.</span>}
        {/* A disabled button would lose the focus. */}
        <button type="submit" class="primary" aria-disabled={isRunning} ref={callButton}>
          Call
        </button>
        {isRunning && (
          <button type="button" onClick={onCancel}>
            Cancel
          </button>
        )}
      </ArgumentsForm>
      <p role="status" class="outcome">
        {outcomeOf(call)}
      </p>
      {call.kind === "running" && call.progress !== undefined && <CallProgress progress={call.progress} />}
      {result}
      {call.kind === "failed" && (
        <div class="error">
          <ErrorText of={call.error} />
        </div>
      )}
    </div>
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
  return call.result.isError ? `The tool reports an error after ${duration}.` : `The call ended after ${duration}.`;
}
