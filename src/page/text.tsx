import { Component, type ComponentChildren, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { isObject, type JsonObject } from "./form-schema.ts";
import { beginning, escapeInvisible } from "../json/text.ts";
import { errorText, visibleLines } from "./format.ts";

const MAX_LINE_LENGTH = 500;
export const MAX_FACT_LENGTH = 2000;
const MAX_BLOCK_LENGTH = 100_000;
const MAX_INDENTED_NESTING = 50;

/** A text from elsewhere, within a line. Its direction and its length do not affect the rest. */
export function Text({ of, maxLength = MAX_LINE_LENGTH }: { readonly of: string; readonly maxLength?: number }): JSX.Element {
  const shown = beginning(of, maxLength);
  return (
    <bdi>
      {escapeInvisible(shown)}
      {shown.length < of.length && "…"}
    </bdi>
  );
}

/**
 * A text of any number of lines from elsewhere. A long one is cut, because the browser would freeze.
 *
 * @param props `label` is the name for screen readers, `firstLength` the length that is shown at first.
 */
export function TextBlock({
  of,
  label,
  firstLength = MAX_BLOCK_LENGTH,
}: {
  readonly of: string;
  readonly label: string;
  readonly firstLength?: number;
}): JSX.Element {
  const [maxLength, setMaxLength] = useState(firstLength);
  const shown = beginning(of, maxLength);
  const missing = of.length - shown.length;
  // The page renders each second.
  const lines = useMemo(() => visibleLines(shown), [shown]);
  return (
    <>
      {/* A region that scrolls must be reachable by keyboard. */}
      <pre dir="auto" tabIndex={0} role="group" aria-label={label}>
        {lines}
      </pre>
      {missing > 0 && (
        <p class="note">
          {missing.toLocaleString("en")} more characters are not shown.{" "}
          <Button text="Show more" onClick={() => setMaxLength(maxLength + MAX_BLOCK_LENGTH)} />
        </p>
      )}
    </>
  );
}

/** A JSON value as indented text. */
export function JsonBlock({ of, label }: { readonly of: unknown; readonly label: string }): JSX.Element {
  const text = useMemo(() => jsonText(of), [of]);
  return <TextBlock of={text} label={label} />;
}

function jsonText(value: unknown): string {
  try {
    const compact = JSON.stringify(value) ?? "undefined";
    // Indentation can be a thousand times as long as the value.
    return compact.length > MAX_BLOCK_LENGTH || nesting(compact) > MAX_INDENTED_NESTING ? compact : JSON.stringify(value, null, 2);
  } catch {
    return "(nested too deeply to be shown)";
  }
}

/** Returns the depth of a JSON text, brackets in strings included. */
function nesting(json: string): number {
  let [depth, deepest] = [0, 0];
  for (const [bracket] of json.matchAll(/[[\]{}]/g)) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

interface BoundaryProps {
  readonly children: ComponentChildren;
  /** Shows another part instead; undefined to show that the part has failed. */
  readonly onFailed?: () => void;
}

/** Keeps an error in a part of the page from ending the others. */
export class Boundary extends Component<BoundaryProps, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override componentDidCatch(): void {
    this.props.onFailed?.();
  }

  override render(): ComponentChildren {
    if (!this.state.hasFailed) return this.props.children;
    return this.props.onFailed === undefined && <p class="error">This part cannot be shown.</p>;
  }
}

export function Section({
  id,
  title,
  children,
}: {
  readonly id: string;
  readonly title: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <section aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}

interface TableProps {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly kind?: string;
  readonly children: ComponentChildren;
}

export function Table({ caption, columns, kind, children }: TableProps): JSX.Element {
  return (
    <table class={kind}>
      <caption>{caption}</caption>
      <thead>
        <tr>
          {columns.map((column) => (
            <th scope="col" key={column}>
              {column}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>{children}</tbody>
    </table>
  );
}

interface ButtonProps {
  readonly text: string;
  /** The object of the action, if only screen readers need its name. */
  readonly object?: string;
  readonly onClick: () => void;
}

export function Button({ text, object, onClick }: ButtonProps): JSX.Element {
  return (
    <button type="button" onClick={() => onClick()}>
      {text}
      {object !== undefined && <span class="hidden-text"> {object}</span>}
    </button>
  );
}

/** A name with its value, in a list of facts. */
export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

/** A fact that is a text from elsewhere, if there is one. */
export function TextFact({ name, of }: { readonly name: string; readonly of: string | null }): JSX.Element | null {
  if (of === null) return null;
  return (
    <Fact name={name}>
      <Text of={of} maxLength={MAX_FACT_LENGTH} />
    </Fact>
  );
}

/** A failed request: its message, its code, and what the sidecar has added. */
export function ErrorText({ of }: { readonly of: unknown }): JSX.Element {
  const { code, data }: JsonObject = isObject(of) ? of : {};
  return (
    <>
      <TextBlock of={errorText(of)} label="Error message" />
      {(typeof code === "number" || typeof code === "string") && <p>Code: {code}</p>}
      {data !== undefined && <JsonBlock of={data} label="Error data" />}
    </>
  );
}
