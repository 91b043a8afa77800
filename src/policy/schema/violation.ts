/** What the validator says of one violation (an error object of ajv, with `verbose`). */
export interface Violation {
  readonly keyword: string;
  /** A JSON pointer to what is wrong. */
  readonly instancePath: string;
  /** A JSON pointer to the keyword, from where the last reference led to. */
  readonly schemaPath: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Where the name of a member is wrong. */
  readonly propertyName?: string;
  /** The value of the keyword. */
  readonly schema?: unknown;
  readonly parentSchema?: unknown;
  /** The value that is wrong. It may be a secret. */
  readonly data?: unknown;
}

/** Of a value that fits no branch: what it would have to be. Not of ajv. */
export const NO_BRANCH = "no branch";
