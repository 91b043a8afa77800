import Form from "@rjsf/core";
import type { RegistryFieldsType, RJSFSchema } from "@rjsf/utils";
import { Component, type ComponentChildren, type JSX } from "preact";
import { useMemo } from "preact/hooks";
import { formTemplates } from "./form-templates.tsx";
import { formValidator } from "./form-validator.ts";
import { formWidgets } from "./form-widgets.tsx";
import { NumberField } from "./number-field.tsx";

/** Values that the reader has not touched are not sent. */
const DEFAULTS = {
  emptyObjectFields: "skipEmptyDefaults",
  constAsDefaults: "skipOneOf",
  arrayMinItems: { populate: "requiredOnly" },
} as const;

const FIELDS: RegistryFieldsType = { NumberField };

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
  /** The buttons. */
  readonly children: ComponentChildren;
}

/** A form made from a schema. */
export function SchemaForm({ schema, value, id, onChange, onSubmit, onFailed, children }: Props): JSX.Element {
  // The title is the tool's or the question's, which is shown above the form.
  const untitled = useMemo(() => ({ ...schema, title: "", description: "" }), [schema]);
  return (
    <FormBoundary onFailed={onFailed}>
      <Form
        schema={untitled}
        formData={value}
        validator={formValidator}
        templates={formTemplates}
        widgets={formWidgets}
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
    </FormBoundary>
  );
}

interface BoundaryProps {
  readonly onFailed: () => void;
  readonly children: ComponentChildren;
}

class FormBoundary extends Component<BoundaryProps, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override componentDidCatch(): void {
    this.props.onFailed();
  }

  override render(): ComponentChildren {
    return this.state.hasFailed ? null : this.props.children;
  }
}
