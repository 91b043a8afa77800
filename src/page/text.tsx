import { Component, type ComponentChildren, type JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { cut, visibleLine, visibleLines } from "./format.ts";

const MAX_LINE_LENGTH = 500;
const MAX_BLOCK_LENGTH = 100_000;
const MAX_INDENTED_NESTING = 50;

interface TextProps {
  readonly of: string;
  readonly maxLength?: number;
}

/** A text from elsewhere, within a line. Its direction and its length do not affect the rest. */
export function Text({ of, maxLength = MAX_LINE_LENGTH }: TextProps): JSX.Element {
  const shown = cut(of, maxLength);
  return (
    <bdi>
      {visibleLine(shown)}
      {shown.length < of.length && "…"}
    </bdi>
  );
}

interface BlockProps {
  readonly of: string;
  /** The name for screen readers. */
  readonly label: string;
  /** The length that is shown at first. */
  readonly firstLength?: number;
}

/** A text of any number of lines from elsewhere. A long one is cut, because the browser would freeze. */
export function TextBlock({ of, label, firstLength = MAX_BLOCK_LENGTH }: BlockProps): JSX.Element {
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

interface Props {
  readonly children: ComponentChildren;
}

/** Keeps an error in a part of the page from ending the others. */
export class Boundary extends Component<Props, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override render(): ComponentChildren {
    return this.state.hasFailed ? <p class="error">This part cannot be shown.</p> : this.props.children;
  }
}
