import type { ComponentChildren, JSX, TargetedInputEvent } from "preact";
import { useId, useMemo, useRef, useState } from "preact/hooks";
import { argumentsOf, type Field, fieldsOf, fieldText, jsonProblem, parsedObject, unknownField } from "./fields.ts";
import type { JsonObject } from "../json/text.ts";
import { shownText, Text } from "./text.tsx";

const MAX_LABEL_LENGTH = 200;
const MAX_DESCRIPTION_LENGTH = 2000;

function FieldRow({
  id,
  field,
  text,
  onInput,
}: {
  readonly id: string;
  readonly field: Field;
  readonly text: string;
  readonly onInput: (text: string) => void;
}): JSX.Element {
  const { title, description } = field.schema;
  return (
    <div class={`field ${field.kind}`}>
      <label for={id}>
        <Text of={typeof title === "string" && title !== "" ? title : field.name} maxLength={MAX_LABEL_LENGTH} />
        {field.isRequired && <span class="note"> (required)</span>}
        {field.kind === "json" && <span class="note"> as JSON</span>}
      </label>
      {fieldInput(id, field, text, onInput)}
      {typeof description === "string" && description !== "" && (
        <p class="note" id={`${id}-description`}>
          <Text of={description} maxLength={MAX_DESCRIPTION_LENGTH} />
        </p>
      )}
    </div>
  );
}

function fieldInput(id: string, field: Field, text: string, onInput: (text: string) => void): JSX.Element {
  const { kind, isRequired, schema, options } = field;
  const number = (key: string): number | undefined => (typeof schema[key] === "number" ? schema[key] : undefined);
  const shared = {
    id,
    required: isRequired,
    "aria-describedby": typeof schema["description"] === "string" ? `${id}-description` : undefined,
  };
  if (kind === "boolean")
    return (
      <input
        {...shared}
        type="checkbox"
        // A required value may be false.
        required={false}
        checked={text === "true"}
        onInput={({ currentTarget }) => onInput(String(currentTarget.checked))}
      />
    );
  if (options !== undefined)
    return (
      <select {...shared} value={text} onInput={({ currentTarget }) => onInput(currentTarget.value)}>
        <option value="" />
        {options.map((option) => (
          <option key={option.text} value={option.text}>
            {shownText(option.label, MAX_LABEL_LENGTH)}
          </option>
        ))}
      </select>
    );
  if (kind === "json")
    return (
      <textarea
        {...shared}
        rows={field === WHOLE ? 8 : 2}
        spellcheck={false}
        value={text}
        // The browser says it when the form is sent.
        ref={(element) => element?.setCustomValidity(jsonProblem(text, field === WHOLE))}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
    );
  const input = {
    ...shared,
    value: text,
    onInput: ({ currentTarget }: TargetedInputEvent<HTMLInputElement>) => onInput(currentTarget.value),
  };
  if (kind === "text") return <input {...input} type="text" minLength={number("minLength")} maxLength={number("maxLength")} />;
  const step = number("multipleOf") ?? (schema["type"] === "integer" ? 1 : "any");
  return <input {...input} type="number" min={number("minimum")} max={number("maximum")} step={step} />;
}

/** The field in place of all others. */
const WHOLE = unknownField("Arguments");

interface Props {
  /** A part of the tool's schema. */
  readonly of: unknown;
  /** True to fill in required values with samples. */
  readonly isFilled: boolean;
  readonly onSubmit: (value: JsonObject) => void;
  readonly children: ComponentChildren;
}

/** A field for each property of an object, or its JSON. */
export function ArgumentsForm({ of, isFilled, onSubmit, children }: Props): JSX.Element {
  const id = useId();
  const known = useMemo(() => fieldsOf(of, isFilled), [of, isFilled]);
  const [isJson, setIsJson] = useState(known === undefined);
  const [texts, setTexts] = useState<ReadonlyMap<string, string>>(() => new Map(known?.map(({ name, initial }) => [name, initial])));
  const form = useRef<HTMLFormElement>(null);
  const fields = isJson ? [WHOLE] : [...(known ?? [])];
  for (const name of texts.keys()) if (!fields.some((each) => each.name === name)) fields.push(unknownField(name));

  const valueOf = (): JsonObject | string => (isJson ? parsedObject(texts.get(WHOLE.name) ?? "", true) : argumentsOf(fields, texts));
  const onSwitch = (box: HTMLInputElement): void => {
    const value = valueOf();
    // Invalid JSON can become neither fields nor a part of the whole.
    box.checked = typeof value === "string" ? isJson : !isJson;
    if (typeof value === "string") return void form.current?.reportValidity();
    const kinds = new Map(known?.map(({ name, kind }) => [name, kind]));
    const parts = Object.entries(value).map(([name, each]) => [name, fieldText(kinds.get(name) ?? "json", each)] as const);
    setTexts(new Map(isJson ? parts : [[WHOLE.name, JSON.stringify(value, null, 2)]]));
    return setIsJson(!isJson);
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const value = valueOf();
    if (typeof value !== "string") onSubmit(value);
  };
  return (
    <form ref={form} onSubmit={submit}>
      {fields.map((field, index) => (
        <FieldRow
          key={field.name}
          id={`${id}-${index}`}
          field={field}
          text={texts.get(field.name) ?? ""}
          onInput={(text) => setTexts(new Map([...texts, [field.name, text]]))}
        />
      ))}
      {isFilled && fields.some(({ isRequired }) => isRequired) && (
        <p class="note">Required values are examples. Change them if they matter.</p>
      )}
      <div class="row">
        {children}
        {known !== undefined && (
          <label class="switch">
            <input type="checkbox" checked={isJson} onInput={({ currentTarget }) => onSwitch(currentTarget)} /> Edit as JSON
          </label>
        )}
      </div>
    </form>
  );
}
