import type { RJSFSchema } from "@rjsf/utils";
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { parsedObject } from "./form-schema.ts";
import { SchemaForm } from "./schema-form.tsx";

interface Props {
  /** Unique on the page. */
  readonly id: string;
  /** From `formSchemaOf`. */
  readonly schema: RJSFSchema | string;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
  readonly onSubmit: (value: unknown) => void;
  /** The buttons. */
  readonly children: ComponentChildren;
}

/** A form for the properties of an object: fields made from its schema, or its JSON. */
export function ArgumentsForm({ id, schema, value, onChange, onSubmit, children }: Props): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const [isJson, setIsJson] = useState(false);
  const showJson = useRef(false);
  const [text, setText] = useState("");
  // An object, so that an equal message is shown again.
  const [error, setError] = useState<{ readonly text: string }>();
  const problem = typeof schema === "string" ? schema : failure;

  /** Passes the object of the text on, or shows why there is none. @returns false without an object. */
  const read = (isExact: boolean, onObject: (object: unknown) => void): boolean => {
    const parsed = parsedObject(text, isExact);
    setError(typeof parsed === "string" ? { text: parsed } : undefined);
    if (typeof parsed !== "string") onObject(parsed);
    return typeof parsed !== "string";
  };
  const switchTo = (json: boolean): void => {
    if (json) setText(JSON.stringify(value ?? {}, null, 2));
    else if (!read(false, onChange)) return;
    showJson.current = json;
    setIsJson(json);
  };
  return (
    <>
      {problem === undefined ? (
        <label class="switch">
          <input
            type="checkbox"
            checked={isJson}
            onInput={({ currentTarget }) => {
              switchTo(currentTarget.checked);
              // Invalid JSON cannot become a form.
              currentTarget.checked = showJson.current;
            }}
          />{" "}
          Edit as JSON
        </label>
      ) : (
        <p class="note">{problem}: write the arguments as JSON.</p>
      )}
      {isJson || problem !== undefined || typeof schema === "string" ? (
        <JsonForm id={`${id}-json`} text={text} error={error?.text} onInput={setText} onSubmit={() => read(true, onSubmit)}>
          {children}
        </JsonForm>
      ) : (
        <SchemaForm
          schema={schema}
          value={value}
          id={id}
          onChange={onChange}
          onSubmit={onSubmit}
          onFailed={() => setFailure("No form can be made of the schema")}
        >
          <div class="row">{children}</div>
        </SchemaForm>
      )}
    </>
  );
}

/** A form with a text field for a JSON object. */
function JsonForm({
  id,
  text,
  error,
  onInput,
  onSubmit,
  children,
}: {
  readonly id: string;
  readonly text: string;
  readonly error: string | undefined;
  readonly onInput: (text: string) => void;
  readonly onSubmit: () => void;
  readonly children: ComponentChildren;
}): JSX.Element {
  const submit = (event: Event): void => {
    event.preventDefault();
    onSubmit();
  };
  return (
    <form onSubmit={submit}>
      <div class="field">
        <label for={id}>Arguments as JSON</label>
        <textarea
          id={id}
          rows={8}
          spellcheck={false}
          value={text}
          aria-invalid={error !== undefined}
          aria-describedby={error === undefined ? undefined : `${id}-error`}
          onInput={({ currentTarget }) => onInput(currentTarget.value)}
        />
        {error !== undefined && (
          <p id={`${id}-error`} class="error" role="alert">
            {error}
          </p>
        )}
      </div>
      <div class="row">{children}</div>
    </form>
  );
}
