import type { JSX } from "preact";
import { useRef } from "preact/hooks";

interface Props {
  readonly isWrong: boolean;
  readonly onToken: (token: string) => void;
}

/** The form for the sidecar's token. The browser is not asked to keep it. */
export function TokenForm({ isWrong, onToken }: Props): JSX.Element {
  const field = useRef<HTMLInputElement>(null);
  const submit = (event: Event): void => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (token !== "") onToken(token);
  };
  return (
    <section aria-labelledby="token-title">
      <h2 id="token-title">Authorization</h2>
      <p>This sidecar needs a token. The page keeps it in memory until you close or reload the page.</p>
      <form class="row" onSubmit={submit}>
        <label for="token">Token</label>
        <input id="token" ref={field} type="password" autocomplete="off" required aria-describedby={isWrong ? "token-error" : undefined} />
        <button type="submit">Open</button>
      </form>
      {isWrong && (
        <p id="token-error" role="alert" class="error">
          The token is wrong.
        </p>
      )}
    </section>
  );
}
