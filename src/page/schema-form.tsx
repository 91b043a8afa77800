import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
import Form from "@rjsf/core";
import { getDefaultRegistry } from "@rjsf/core";
import {
  ADDITIONAL_PROPERTY_FLAG,
  ariaDescribedByIds,
  type ArrayFieldItemTemplateProps,
  errorId,
  type ErrorListProps,
  ErrorSchemaBuilder,
  type FieldErrorProps,
  type FieldProps,
  type FieldTemplateProps,
  type IconButtonProps,
  type RegistryFieldsType,
  type RegistryWidgetsType,
  type RJSFSchema,
  type RJSFValidationError,
  type TemplatesType,
  type TitleFieldProps,
  type UnsupportedFieldProps,
  type ValidatorType,
  type WidgetProps,
} from "@rjsf/utils";
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { pointerNames } from "./form-schema.ts";
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
  FieldErrorTemplate: FieldErrors,
  ErrorListTemplate: ErrorList,
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
  const { id, label, rawDescription, children, errors, hidden, required, displayLabel, schema, onKeyRenameBlur, onRemoveProperty } = props;
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
      {errors}
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

function FieldErrors({ errors = [], fieldPathId }: FieldErrorProps): JSX.Element | null {
  const texts = errors.filter((error) => typeof error === "string");
  if (texts.length === 0) return null;
  return (
    <ul id={errorId(fieldPathId)} class="error">
      {texts.map((text) => (
        <li key={text}>
          <Text of={text} />
        </li>
      ))}
    </ul>
  );
}

function ErrorList({ errors }: ErrorListProps): JSX.Element {
  return (
    <div role="alert" class="error">
      <p>The arguments are not valid:</p>
      <ul>
        {errors.slice(0, 20).map(({ stack }) => (
          <li key={stack}>
            <Text of={stack} />
          </li>
        ))}
      </ul>
    </div>
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

/** The beginning of each error in the message of the validator: a pointer to the value, in which spaces are escaped. */
const LOCATION = /(?:^|; )(#(?:\/\S*)?): /g;
/** Errors that only repeat that something below is not valid. */
const PARENT_ERROR =
  /^(?:Property ".*" does not match (?:schema|additional properties schema|unevaluated properties schema)|Items did not match|A subschema had errors|Instance does not match (?:all|every)|False boolean schema)/s;
const MISSING = /^Instance does not have required property "(.*)"\.$/s;

/**
 * The form's validator. It interprets schemas, because the page's content security policy allows no generated code. The official client contains
 * it, so it adds nothing to the page.
 */
const formValidator: ValidatorType = {
  isValid: (schema, formData: unknown, rootSchema) => {
    const { $defs, definitions } = rootSchema;
    const whole = { ...($defs && { $defs }), ...(definitions && { definitions }), allOf: [schema] };
    return errorsOf(whole, formData)?.length === 0;
  },
  // Only the library's playground uses it.
  rawValidation: () => ({}),
  validateFormData: (formData: unknown, schema) => {
    // The server checks the arguments anyway.
    const errors = errorsOf(schema, formData) ?? [];
    const builder = new ErrorSchemaBuilder();
    for (const { message, path } of errors) builder.addErrors(message, [...path]);
    return { errors, errorSchema: builder.ErrorSchema };
  },
};

interface FormError extends RJSFValidationError {
  readonly message: string;
  readonly path: readonly string[];
}

/** Returns undefined if the schema is not valid. */
function errorsOf(schema: RJSFSchema, formData: unknown): FormError[] | undefined {
  try {
    const validate = new CfWorkerJsonSchemaValidator({ draft: "2020-12", shortcircuit: false }).getValidator(
      schema as Record<string, unknown>,
    );
    // The form keeps properties without a value, which would not be sent.
    const { errorMessage } = validate(formData === undefined ? {} : JSON.parse(JSON.stringify(formData)));
    if (errorMessage === undefined) return [];
    const errors = separateErrors(errorMessage);
    const own = errors.filter(({ message }) => !PARENT_ERROR.test(message));
    return own.length > 0 ? own : errors;
  } catch {
    return undefined;
  }
}

function separateErrors(text: string): FormError[] {
  const starts = [...text.matchAll(LOCATION)];
  return starts.map((start, index) => {
    const message = text.slice(start.index + start[0].length, starts[index + 1]?.index);
    return formError(start[1] ?? "#", message);
  });
}

/** Moves the error of a missing property to the property. */
function formError(location: string, text: string): FormError {
  const missing = MISSING.exec(text)?.[1];
  const path = pointerNames(location);
  if (missing !== undefined) path.push(missing);
  const message = missing === undefined ? escapeInvisible(text) : "A value is required.";
  return {
    message,
    path,
    property: `.${path.join(".")}`,
    stack: `${path.length === 0 ? "" : `${escapeInvisible(path.join(" › "))}: `}${message}`,
  };
}

const LibraryField = getDefaultRegistry().fields["NumberField"] as unknown as (props: FieldProps) => JSX.Element;

/** A field for a number, which keeps the text as it is typed. That of the library replaces it at each key, so that `-0.5` cannot be typed. */
function NumberField(props: FieldProps): JSX.Element {
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

/** Values that the reader has not touched are not sent. */
const DEFAULTS = {
  emptyObjectFields: "skipEmptyDefaults",
  constAsDefaults: "skipOneOf",
  arrayMinItems: { populate: "requiredOnly" },
} as const;

/** The fields and widgets that differ from the library's. */
const FIELDS: RegistryFieldsType = { NumberField };
const WIDGETS: RegistryWidgetsType = { SelectWidget: Select };

interface Props {
  /** From `formSchemaOf`. */
  readonly schema: RJSFSchema;
  readonly value: unknown;
  /** Unique on the page. */
  readonly id: string;
  readonly onChange: (value: unknown) => void;
  /** Called with a valid value. */
  readonly onSubmit: (value: unknown) => void;
  /** Called if no form can be made of the schema. */
  readonly onFailed: () => void;
  readonly children: ComponentChildren;
}

export function SchemaForm({ schema, value, id, onChange, onSubmit, onFailed, children }: Props): JSX.Element {
  // The title is the tool's or the question's, which is shown above the form.
  const untitled = useMemo(() => ({ ...schema, title: "", description: "" }), [schema]);
  return (
    <Boundary onFailed={onFailed}>
      <Form
        schema={untitled}
        formData={value}
        validator={formValidator}
        templates={formTemplates}
        widgets={WIDGETS}
        fields={FIELDS}
        idPrefix={id}
        noHtml5Validate
        focusOnFirstError
        showErrorList="top"
        experimental_defaultFormStateBehavior={DEFAULTS}
        onChange={({ formData }) => onChange(formData)}
        onSubmit={({ formData }) => onSubmit(formData)}
        // Without it, the library logs them. The form shows them.
        onError={() => undefined}
      >
        {children}
      </Form>
    </Boundary>
  );
}
