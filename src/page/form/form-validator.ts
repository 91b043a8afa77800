import { CfWorkerJsonSchemaValidator } from "@modelcontextprotocol/client/validators/cf-worker";
import { ErrorSchemaBuilder, type RJSFSchema, type RJSFValidationError, type ValidatorType } from "@rjsf/utils";
import { visibleLine } from "../text/visible.ts";
import { pointerNames } from "./json-pointer.ts";

const DRAFT = "2020-12";
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
export const formValidator: ValidatorType = {
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
    const validate = new CfWorkerJsonSchemaValidator({ draft: DRAFT, shortcircuit: false }).getValidator(schema as Record<string, unknown>);
    const { errorMessage } = validate(asJson(formData));
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
  const message = missing === undefined ? visibleLine(text) : "A value is required.";
  return {
    message,
    path,
    property: `.${path.join(".")}`,
    stack: `${path.length === 0 ? "" : `${visibleLine(path.join(" › "))}: `}${message}`,
  };
}

/** Returns the value that would be sent: the form keeps properties without a value. */
function asJson(formData: unknown): unknown {
  return formData === undefined ? {} : JSON.parse(JSON.stringify(formData));
}
