import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { endpointUrl } from "../text/format.ts";

interface Props {
  readonly endpointPath: string;
  readonly hasToken: boolean;
}

/** The command of the MCP Inspector for this endpoint, for resources, prompts, and everything else. */
export function InspectorCommand({ endpointPath, hasToken }: Props): JSX.Element {
  const code = useRef<HTMLElement>(null);
  const [outcome, setOutcome] = useState("");
  const token = hasToken ? ' --header "Authorization: Bearer TOKEN"' : "";
  const command = `npx -y @modelcontextprotocol/inspector --cli ${endpointUrl(endpointPath).href} --transport http${token} --method resources/list`;
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(command);
      setOutcome("Copied");
    } catch {
      // Without TLS, only localhost may write to the clipboard.
      if (code.current !== null) getSelection()?.selectAllChildren(code.current);
      setOutcome("Selected: press Ctrl+C to copy");
    }
  };
  return (
    <details>
      <summary>Resources, prompts and everything else</summary>
      <p>
        The{" "}
        <a href="https://github.com/modelcontextprotocol/inspector" rel="noreferrer noopener" target="_blank">
          MCP Inspector
        </a>{" "}
        has them. For example, this command lists the resources:
      </p>
      <p class="command">
        <code ref={code}>{command}</code>
      </p>
      <p class="row">
        <button type="button" onClick={() => void copy()}>
          Copy
        </button>
        <span role="status">{outcome}</span>
      </p>
    </details>
  );
}
