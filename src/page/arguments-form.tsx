import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
import Form from "@rjsf/core";
import { getDefaultRegistry } from "@rjsf/core";
import {
  ADDITIONAL_PROPERTY_FLAG,
  ariaDescribedByIds,
  type ArrayFieldItemTemplateProps,
  type FieldProps,
  type FieldTemplateProps,
  type IconButtonProps,
  type RJSFSchema,
  type TemplatesType,
  type TitleFieldProps,
  type UnsupportedFieldProps,
  type ValidatorType,
  type WidgetProps,
} from "@rjsf/utils";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { formSchemaOf, parsedObject } from "./form-schema.ts";
import { beginning, escapeInvisible } from "../json/text.ts";
import { Boundary, Button, Text } from "./text.tsx";

const MAX_DESCRIPTION_LENGTH = 2000;

/** The templates of the form. Those of the library show icons of a font, and texts of the server as they are. */
const formTemplates: Partial<Omit<TemplatesType, "ButtonTemplates">> & {
  ButtonTemplates: Partial<TemplatesType["ButtonTemplates"]>;
} = {
  FieldTemplate,
  TitleFieldTemplate: Title,
  DescriptionFieldTemplate: Description,
  ArrayFieldItemTemplate: ArrayItem,
  UnsupportedFieldTemplate: Unsupported,
  WrapIfAdditionalTemplate: ({ children }) => <>{children}</>,
  ButtonTemplates: {
    AddButton: button("Add"),
    RemoveButton: button("Remove"),
    CopyButton: button("Duplicate"),
    MoveUpButton: button("Move up"),
    MoveDownButton: button("Move down"),
    ClearButton: button("Clear"),
    SubmitButton: () => <></>,
  },
};

function FieldTemplate(props: FieldTemplateProps): JSX.Element {
  const { id, label, rawDescription, children, hidden, required, displayLabel, schema, onKeyRenameBlur, onRemoveProperty } = props;
  if (hidden === true) return <div hidden>{children}</div>;
  const isAdditional = ADDITIONAL_PROPERTY_FLAG in schema;
  // A check box has its own label and description.
  const hasLabel = displayLabel === true && schema.type !== "boolean";
  return (
    <div class="field">
      {isAdditional && (
        <div class="row">
          <label for={`${id}-key`}>Name</label>
          <input id={`${id}-key`} type="text" defaultValue={label} onBlur={onKeyRenameBlur} />
          <Button text="Remove" onClick={onRemoveProperty} />
        </div>
      )}
      {hasLabel && (
        <label for={id}>
          <Text of={isAdditional ? "Value" : label} />
          {required === true && <RequiredMark />}
        </label>
      )}
      {hasLabel && <Description id={`${id}__description`} description={rawDescription} />}
      {children}
    </div>
  );
}

function RequiredMark(): JSX.Element {
  return <span class="required"> (required)</span>;
}

function Title({ id, title, required, optionalDataControl }: TitleFieldProps): JSX.Element {
  return (
    <legend id={id}>
      <Text of={title} />
      {required === true && <RequiredMark />}
      {optionalDataControl}
    </legend>
  );
}

function Description({ id, description }: { readonly id: string; readonly description?: unknown }): JSX.Element | null {
  if (typeof description !== "string" || description === "") return null;
  return (
    <p class="note" id={id}>
      <Text of={description} maxLength={MAX_DESCRIPTION_LENGTH} />
    </p>
  );
}

function ArrayItem({ children, buttonsProps, hasToolbar, index }: ArrayFieldItemTemplateProps): JSX.Element {
  const { hasMoveUp, hasMoveDown, hasRemove, onMoveUpItem, onMoveDownItem, onRemoveItem } = buttonsProps;
  const item = `item ${index + 1}`;
  return (
    <div class="item" role="group" aria-label={item}>
      {children}
      {hasToolbar && (
        <div class="row">
          {hasMoveUp && <Button text="Move up" object={item} onClick={onMoveUpItem} />}
          {hasMoveDown && <Button text="Move down" object={item} onClick={onMoveDownItem} />}
          {hasRemove && <Button text="Remove" object={item} onClick={onRemoveItem} />}
        </div>
      )}
    </div>
  );
}

function Unsupported({ reason }: UnsupportedFieldProps): JSX.Element {
  return (
    <p class="error">
      This part of the schema has no form{reason === undefined ? "" : ": "}
      {reason !== undefined && <Text of={reason} />}. Edit the arguments as JSON.
    </p>
  );
}

function button(words: string): (props: IconButtonProps) => JSX.Element {
  return ({ id, disabled, onClick }) => (
    <button type="button" {...(id !== undefined && { id })} disabled={disabled === true} onClick={onClick}>
      {words}
    </button>
  );
}

const MAX_OPTION_LENGTH = 200;

const { SelectWidget } = getDefaultRegistry().widgets;

/** A select whose options show invisible characters. */
function Select({ options, ...props }: WidgetProps): JSX.Element {
  const enumOptions = options.enumOptions?.map((option) => ({
    ...option,
    label: escapeInvisible(beginning(option.label, MAX_OPTION_LENGTH)),
  }));
  const Library = SelectWidget as (props: WidgetProps) => JSX.Element;
  const select = <Library {...props} options={{ ...options, ...(enumOptions && { enumOptions }) }} />;
  // The library gives no label to the choice between the variants of `anyOf` and `oneOf`.
  return /__(?:any|one)of_select$/.test(props.id) ? <label>Variant {select}</label> : select;
}

/**
 * Chooses between variants. The browser checks each field, and the server the arguments. It interprets schemas, because the page's content
 * security policy allows no generated code. The official client contains it, so it adds nothing to the page.
 */
const formValidator: ValidatorType = {
  isValid: (schema, formData: unknown) => {
    try {
      // The form keeps properties without a value, which would not be sent.
      const value: unknown = JSON.parse(JSON.stringify(formData ?? {}));
      return new CfWorkerJsonSchemaValidator({ draft: "2020-12" }).getValidator(schema as Record<string, unknown>)(value).valid;
    } catch {
      return false;
    }
  },
  // Only the library's playground uses it.
  rawValidation: () => ({}),
  validateFormData: () => ({ errors: [], errorSchema: {} }),
};

const LibraryField = getDefaultRegistry().fields["NumberField"] as unknown as (props: FieldProps) => JSX.Element;

/** A field for a number, which keeps the text as it is typed. That of the library replaces it at each key, so that `-0.5` cannot be typed. */
function NumberField(props: FieldProps): JSX.Element {
  const { schema, required, readonly, disabled, onChange, fieldPathId } = props;
  if (schema.enum !== undefined || schema.oneOf !== undefined || schema.anyOf !== undefined) return <LibraryField {...props} />;
  const formData: unknown = props.formData;
  return (
    <input
      // Another variant may have another value.
      key={JSON.stringify(schema.default)}
      id={fieldPathId.$id}
      type="number"
      step={schema.multipleOf ?? (schema.type === "integer" ? 1 : "any")}
      min={schema.minimum}
      max={schema.maximum}
      defaultValue={typeof formData === "number" || typeof formData === "string" ? String(formData) : ""}
      required={required === true}
      readOnly={readonly === true}
      disabled={disabled === true}
      aria-describedby={ariaDescribedByIds(fieldPathId.$id)}
      onInput={({ currentTarget: { valueAsNumber } }) =>
        onChange(Number.isNaN(valueAsNumber) ? undefined : valueAsNumber, fieldPathId.path)
      }
    />
  );
}

/** What all forms have in common. */
const FORM = {
  validator: formValidator,
  templates: formTemplates,
  fields: { NumberField },
  widgets: { SelectWidget: Select },
  showErrorList: false,
  // Values that the reader has not touched are not sent.
  experimental_defaultFormStateBehavior: {
    emptyObjectFields: "skipEmptyDefaults",
    constAsDefaults: "skipOneOf",
    arrayMinItems: { populate: "requiredOnly" },
  },
} as const;

/** A text field for a JSON object. */
function JsonField({
  id,
  text,
  error,
  onInput,
}: {
  readonly id: string;
  readonly text: string;
  readonly error: string | undefined;
  readonly onInput: (text: string) => void;
}): JSX.Element {
  return (
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
  );
}

/** Returns a schema without its title, which is the tool's or the question's and shown above the form. */
function untitledSchemaOf(schema: unknown): RJSFSchema | string {
  const safe = formSchemaOf(schema);
  return typeof safe === "string" ? safe : { ...safe, title: "", description: "" };
}

interface Props {
  /** Unique on the page. */
  readonly id: string;
  /** The schema of the server. */
  readonly of: unknown;
  /** Called with a valid value. */
  readonly onSubmit: (value: unknown) => void;
  /** The buttons. */
  readonly children: ComponentChildren;
}

/** A form for the properties of an object: fields made from its schema, or its JSON. */
export function ArgumentsForm({ id, of, onSubmit, children }: Props): JSX.Element {
  const schema = useMemo(() => untitledSchemaOf(of), [of]);
  const [value, setValue] = useState<unknown>({});
  const [hasFailed, setHasFailed] = useState(false);
  const [isJson, setIsJson] = useState(false);
  const [text, setText] = useState("");
  // An object, so that an equal message is shown again.
  const [error, setError] = useState<{ readonly text: string }>();
  const problem = typeof schema === "string" ? schema : hasFailed ? "No form can be made of the schema" : undefined;

  /** Passes the object of the text on, or shows why there is none. @returns false without an object. */
  const read = (isExact: boolean, onObject: (object: unknown) => void): boolean => {
    const parsed = parsedObject(text, isExact);
    setError(typeof parsed === "string" ? { text: parsed } : undefined);
    if (typeof parsed !== "string") onObject(parsed);
    return typeof parsed !== "string";
  };
  const onSwitch = (box: HTMLInputElement): void => {
    if (box.checked) setText(JSON.stringify(value, null, 2));
    // Invalid JSON cannot become a form.
    else box.checked = !read(false, setValue);
    setIsJson(box.checked);
  };
  const submitJson = (event: Event): void => {
    event.preventDefault();
    read(true, onSubmit);
  };
  return (
    <>
      {problem === undefined ? (
        <label class="switch">
          <input type="checkbox" checked={isJson} onInput={({ currentTarget }) => onSwitch(currentTarget)} /> Edit as JSON
        </label>
      ) : (
        <p class="note">{problem}: write the arguments as JSON.</p>
      )}
      {isJson || problem !== undefined || typeof schema === "string" ? (
        <form onSubmit={submitJson}>
          <JsonField id={`${id}-json`} text={text} error={error?.text} onInput={setText} />
          <div class="row">{children}</div>
        </form>
      ) : (
        <Boundary onFailed={() => setHasFailed(true)}>
          <Form
            {...FORM}
            idPrefix={id}
            schema={schema}
            formData={value}
            onChange={({ formData }) => setValue(formData)}
            onSubmit={({ formData }) => onSubmit(formData)}
          >
            <div class="row">{children}</div>
          </Form>
        </Boundary>
      )}
    </>
  );
}
