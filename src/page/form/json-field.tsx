import type { JSX } from "preact";

interface Props {
  readonly id: string;
  readonly text: string;
  readonly error: string | undefined;
  readonly onInput: (text: string) => void;
}

/** A text field for a JSON object. */
export function JsonField({ id, text, error, onInput }: Props): JSX.Element {
  return (
    <div class="field">
      <label for={id}>Arguments as JSON</label>
      <textarea
        id={id}
        rows={8}
        spellcheck={false}
        value={text}
        aria-invalid={error !== undefined}
        aria-describedby={error === undefined ? undefined : `${id}-error`}
        onInput={({ currentTarget }) => onInput(currentTarget.value)}
      />
      {error !== undefined && (
        <p id={`${id}-error`} class="error" role="alert">
          {error}
        </p>
      )}
    </div>
  );
}
