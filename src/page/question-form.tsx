import type { ElicitResult } from "@modelcontextprotocol/client";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ArgumentsForm } from "./arguments-form.tsx";
import { formSchemaOf, isObject } from "./form-schema.ts";
import { Button, TextBlock } from "./text.tsx";
import type { Question } from "./tool.ts";

/** A question of a tool, with a form for the answer, and the number of further questions. It takes the focus, and gives it back. */
export function QuestionForm({ question, waiting }: { readonly question: Question; readonly waiting: number }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  const schema = useMemo(() => formSchemaOf(question.schema), [question]);
  const [value, setValue] = useState<unknown>({});
  useEffect(() => {
    const former = document.activeElement;
    heading.current?.focus();
    return () => {
      if (former instanceof HTMLElement && former.isConnected) former.focus();
    };
  }, []);
  const send = (content: unknown): void =>
    question.answer({ action: "accept", content: (isObject(content) ? content : {}) as NonNullable<ElicitResult["content"]> });
  return (
    <div class="question" role="group" aria-labelledby="question-title">
      <h3 id="question-title" ref={heading} tabIndex={-1}>
        The tool asks
      </h3>
      <TextBlock of={question.message} label="Question" />
      {waiting > 0 && <p class="note">Questions after this one: {waiting}.</p>}
      <ArgumentsForm id="question" schema={schema} value={value} onChange={setValue} onSubmit={send}>
        <button type="submit" class="primary">
          Send answer
        </button>
        <Button text="Decline" onClick={() => question.answer({ action: "decline" })} />
        <Button text="Cancel question" onClick={() => question.answer({ action: "cancel" })} />
      </ArgumentsForm>
    </div>
  );
}
