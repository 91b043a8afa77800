import type { RJSFSchema } from "@rjsf/utils";
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { JsonField } from "../form/json-field.tsx";
import { isObject } from "../form/json-object.ts";
import { SchemaForm } from "../form/schema-form.tsx";

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
  const [text, setText] = useState("");
  const [error, setError] = useState<string>();
  const problem = typeof schema === "string" ? schema : failure;
  const showJson = isJson || problem !== undefined;

  const switchTo = (json: boolean): void => {
    if (json) {
      setText(JSON.stringify(value ?? {}, null, 2));
    } else {
      const parsed = parsedObject(text);
      if (typeof parsed === "string") return setError(parsed);
      onChange(parsed);
    }
    setError(undefined);
    setIsJson(json);
  };
  const submitJson = (event: Event): void => {
    event.preventDefault();
    const parsed = parsedObject(text);
    if (typeof parsed === "string") return setError(parsed);
    setError(undefined);
    onSubmit(parsed);
  };

  return (
    <>
      {problem === undefined ? (
        <label class="switch">
          <input type="checkbox" checked={isJson} onInput={({ currentTarget }) => switchTo(currentTarget.checked)} /> Edit as JSON
        </label>
      ) : (
        <p class="note">{problem}: write the arguments as JSON.</p>
      )}
      {showJson || typeof schema === "string" ? (
        <form onSubmit={submitJson}>
          <JsonField id={`${id}-json`} text={text} error={error} onInput={setText} />
          <div class="row">{children}</div>
        </form>
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

/** Returns the object of a JSON text, or the reason why it is none. An empty text is an empty object. */
function parsedObject(text: string): Readonly<Record<string, unknown>> | string {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : "The arguments must be a JSON object.";
  } catch (error) {
    return `Not valid JSON: ${error instanceof Error ? error.message : String(error)}`;
  }
}
