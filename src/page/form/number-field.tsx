import { getDefaultRegistry } from "@rjsf/core";
import { ariaDescribedByIds, type FieldProps } from "@rjsf/utils";
import type { JSX } from "preact";
import { useState } from "preact/hooks";

const LibraryField = getDefaultRegistry().fields["NumberField"] as unknown as (props: FieldProps) => JSX.Element;

/** A field for a number, which keeps the text as it is typed. That of the library replaces it at each key, so that `-0.5` cannot be typed. */
export function NumberField(props: FieldProps): JSX.Element {
  const { schema, required, readonly, disabled, onChange, fieldPathId } = props;
  const formData: unknown = props.formData;
  const [text, setText] = useState(textOf(formData));
  if (schema.enum !== undefined || schema.oneOf !== undefined || schema.anyOf !== undefined) return <LibraryField {...props} />;
  return (
    <input
      id={fieldPathId.$id}
      type="text"
      inputMode="decimal"
      // The value may also be changed as JSON.
      value={valueOf(text) === formData ? text : textOf(formData)}
      required={required === true}
      readOnly={readonly === true}
      disabled={disabled === true}
      aria-describedby={ariaDescribedByIds(fieldPathId.$id)}
      onInput={({ currentTarget }) => {
        setText(currentTarget.value);
        onChange(valueOf(currentTarget.value), fieldPathId.path);
      }}
    />
  );
}

/** Returns the text itself if it is not a number, for the validator. */
function valueOf(text: string): number | string | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : text;
}

function textOf(value: unknown): string {
  return typeof value === "number" || typeof value === "string" ? String(value) : "";
}
