import type { JSX } from "preact";
import { isObject } from "./form-schema.ts";
import { JsonBlock, TextBlock } from "./text.tsx";

/** A failed request: its message, its code, and what the sidecar has added. */
export function ErrorText({ of }: { readonly of: unknown }): JSX.Element {
  const code = isObject(of) ? of["code"] : undefined;
  const data = isObject(of) ? of["data"] : undefined;
  return (
    <>
      <TextBlock of={messageOf(of)} label="Error message" />
      {(typeof code === "number" || typeof code === "string") && <p>Code: {code}</p>}
      {data !== undefined && <JsonBlock of={data} label="Error data" />}
    </>
  );
}

function messageOf(error: unknown): string {
  // The message of a failed `fetch` is that of the browser.
  if (error instanceof TypeError) return "The sidecar does not answer.";
  return error instanceof Error ? error.message : String(error);
}
