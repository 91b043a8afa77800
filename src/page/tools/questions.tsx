import type { JSX } from "preact";
import { Loaded } from "./loaded.tsx";
import type { Question } from "./question.ts";

/** The open questions of called tools. */
export function Questions({ questions }: { readonly questions: readonly Question[] }): JSX.Element | null {
  const [first] = questions;
  if (first === undefined) return null;
  return (
    <Loaded load={() => import("../call/question-form.tsx")}>
      {({ QuestionForm }) => <QuestionForm key={first.key} question={first} waiting={questions.length - 1} />}
    </Loaded>
  );
}
