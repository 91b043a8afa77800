import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { cut, visibleLine, visibleLines } from "./visible.ts";

const MAX_LINE_LENGTH = 500;
const MAX_BLOCK_LENGTH = 100_000;

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
}

/** A text of any number of lines from elsewhere. A long one is cut, because the browser would freeze. */
export function TextBlock({ of, label }: BlockProps): JSX.Element {
  const [maxLength, setMaxLength] = useState(MAX_BLOCK_LENGTH);
  const shown = cut(of, maxLength);
  const missing = of.length - shown.length;
  return (
    <>
      {/* A region that scrolls must be reachable by keyboard. */}
      <pre dir="auto" tabIndex={0} role="group" aria-label={label}>
        {visibleLines(shown)}
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
  return <TextBlock of={jsonText(of)} label={label} />;
}

function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? "undefined";
  } catch {
    return "(nested too deeply to be shown)";
  }
}
