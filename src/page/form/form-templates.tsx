import {
  ADDITIONAL_PROPERTY_FLAG,
  type ArrayFieldItemTemplateProps,
  type DescriptionFieldProps,
  errorId,
  type ErrorListProps,
  type FieldErrorProps,
  type FieldTemplateProps,
  type IconButtonProps,
  type TemplatesType,
  type TitleFieldProps,
  type UnsupportedFieldProps,
} from "@rjsf/utils";
import type { JSX } from "preact";
import { Text } from "../text/text.tsx";

const MAX_DESCRIPTION_LENGTH = 2000;

/** The templates of the form. Those of the library show icons of a font, and texts of the server as they are. */
export const formTemplates: Partial<Omit<TemplatesType, "ButtonTemplates">> & {
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
          <button type="button" onClick={onRemoveProperty}>
            Remove
          </button>
        </div>
      )}
      {hasLabel && (
        <label for={id}>
          <Text of={isAdditional ? "Value" : label} />
          {required === true && <RequiredMark />}
        </label>
      )}
      {hasLabel && rawDescription !== undefined && rawDescription !== "" && (
        <p class="note" id={`${id}__description`}>
          <Text of={rawDescription} maxLength={MAX_DESCRIPTION_LENGTH} />
        </p>
      )}
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

function Description({ id, description }: DescriptionFieldProps): JSX.Element | null {
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
          {hasMoveUp && <ItemButton words="Move up" item={item} onClick={onMoveUpItem} />}
          {hasMoveDown && <ItemButton words="Move down" item={item} onClick={onMoveDownItem} />}
          {hasRemove && <ItemButton words="Remove" item={item} onClick={onRemoveItem} />}
        </div>
      )}
    </div>
  );
}

interface ItemButtonProps {
  readonly words: string;
  readonly item: string;
  readonly onClick: () => void;
}

function ItemButton({ words, item, onClick }: ItemButtonProps): JSX.Element {
  return (
    <button type="button" onClick={() => onClick()}>
      {words}
      <span class="hidden-text"> {item}</span>
    </button>
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
