import { Component, type ComponentChildren, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { beginning, escapeInvisible, isJsonObject, type JsonObject } from "../json/text.ts";
import { countText, errorText, visibleLines } from "./format.ts";

const MAX_LINE_LENGTH = 500;
export const MAX_FACT_LENGTH = 2000;
const MAX_BLOCK_LENGTH = 100_000;
const MAX_INDENTED_LENGTH = 20_000;

/** The form of a text from elsewhere, within a line. Invisible characters are shown as escapes. */
export function shownText(of: string, maxLength = MAX_LINE_LENGTH): string {
  const shown = beginning(of, maxLength);
  return shown.length < of.length ? `${escapeInvisible(shown)}…` : escapeInvisible(shown);
}

/** The direction and length of a text from elsewhere do not affect the rest of the line. */
export function Text({ of, maxLength }: { readonly of: string; readonly maxLength?: number }): JSX.Element {
  return <bdi>{shownText(of, maxLength)}</bdi>;
}

/** A text of any number of lines from elsewhere. A long one is cut, because the browser would freeze. */
export function TextBlock({ of, label }: { readonly of: string; readonly label: string }): JSX.Element {
  const shown = beginning(of, MAX_BLOCK_LENGTH);
  const missing = of.length - shown.length;
  // The page renders each second.
  const lines = useMemo(() => visibleLines(shown), [shown]);
  return (
    <>
      {/* A region that scrolls must be reachable by keyboard. */}
      <pre dir="auto" tabIndex={0} role="group" aria-label={label}>
        {lines}
      </pre>
      {missing > 0 && <p class="note">{countText(missing, "more character")} are not shown.</p>}
    </>
  );
}

export function JsonBlock({ of, label }: { readonly of: unknown; readonly label: string }): JSX.Element {
  const text = useMemo(() => jsonText(of), [of]);
  return <TextBlock of={text} label={label} />;
}

function jsonText(value: unknown): string {
  try {
    const compact = JSON.stringify(value) ?? "undefined";
    // Indentation of nested values can be a thousand times as long.
    return compact.length > MAX_INDENTED_LENGTH ? compact : JSON.stringify(value, null, 2);
  } catch {
    return "(nested too deeply to be shown)";
  }
}

/** An error in a part of the page does not end the others. */
export class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override render(): ComponentChildren {
    return this.state.hasFailed ? <p class="error">This part cannot be shown.</p> : this.props.children;
  }
}

/** Rendered only while it is unfolded. */
export function Disclosure({
  summary,
  children,
}: {
  readonly summary: ComponentChildren;
  readonly children: ComponentChildren;
}): JSX.Element {
  const [isOpen, setIsOpen] = useState(false);
  return (
    <details onToggle={({ currentTarget }) => setIsOpen(currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && children}
    </details>
  );
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
    <section id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </section>
  );
}

/** It scrolls, so it must be reachable by keyboard. */
export function Table({
  caption,
  columns,
  children,
}: {
  readonly caption: string;
  readonly columns: readonly string[];
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="group" aria-label={caption}>
      <table>
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
    </div>
  );
}

export function Button({ text, onClick }: { readonly text: string; readonly onClick: () => void }): JSX.Element {
  return (
    <button type="button" onClick={() => onClick()}>
      {text}
    </button>
  );
}

export function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function ErrorText({ of }: { readonly of: unknown }): JSX.Element {
  const { code, data }: JsonObject = isJsonObject(of) ? of : {};
  return (
    <>
      <TextBlock of={errorText(of)} label="Error message" />
      {(typeof code === "number" || typeof code === "string") && <p>Code: {code}</p>}
      {data !== undefined && <JsonBlock of={data} label="Error data" />}
    </>
  );
}
