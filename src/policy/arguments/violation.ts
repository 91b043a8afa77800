/** A violation as the validator reports it: an error object of ajv, with `verbose`. */
export interface Violation {
  readonly keyword: string;
  /** A JSON pointer to the invalid value. */
  readonly instancePath: string;
  /** A JSON pointer to the keyword, relative to the target of the last reference. */
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** The name of a member, if the name is invalid. */
  readonly propertyName?: string;
  /** The value of the keyword. */
  readonly schema?: unknown;
  readonly parentSchema?: unknown;
  /** The invalid value. It may be a secret. */
  readonly data?: unknown;
}

/** Marks a violation that lists the types and values of all branches. Not a keyword of ajv. */
export const NO_BRANCH = "no branch";
