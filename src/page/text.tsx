import { Component, type ComponentChildren, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { isObject, type JsonObject } from "./form-schema.ts";
import { cut, visibleLine, visibleLines } from "./format.ts";

const MAX_LINE_LENGTH = 500;
const MAX_BLOCK_LENGTH = 100_000;
const MAX_INDENTED_NESTING = 50;

/** A text from elsewhere, within a line. Its direction and its length do not affect the rest. */
export function Text({ of, maxLength = MAX_LINE_LENGTH }: { readonly of: string; readonly maxLength?: number }): JSX.Element {
  const shown = cut(of, maxLength);
  return (
    <bdi>
      {visibleLine(shown)}
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
  const shown = cut(of, maxLength);
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
          <button type="button" onClick={() => setMaxLength(maxLength + MAX_BLOCK_LENGTH)}>
            Show more
          </button>
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

/** Keeps an error in a part of the page from ending the others. */
export class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override render(): ComponentChildren {
    return this.state.hasFailed ? <p class="error">This part cannot be shown.</p> : this.props.children;
  }
}

/** A section of the page. */
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

/** The head of a table. */
export function Head({ columns }: { readonly columns: readonly string[] }): JSX.Element {
  return (
    <thead>
      <tr>
        {columns.map((column) => (
          <th scope="col" key={column}>
            {column}
          </th>
        ))}
      </tr>
    </thead>
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

/** A failed request: its message, its code, and what the sidecar has added. */
export function ErrorText({ of }: { readonly of: unknown }): JSX.Element {
  const { code, data }: JsonObject = isObject(of) ? of : {};
  // The message of a failed `fetch` is that of the browser.
  const message = of instanceof TypeError ? "The sidecar does not answer." : of instanceof Error ? of.message : String(of);
  return (
    <>
      <TextBlock of={message} label="Error message" />
      {(typeof code === "number" || typeof code === "string") && <p>Code: {code}</p>}
      {data !== undefined && <JsonBlock of={data} label="Error data" />}
    </>
  );
}
