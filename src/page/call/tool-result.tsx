import type { JSX } from "preact";
import { isObject } from "../form/json-object.ts";
import { JsonBlock, TextBlock } from "../text/text.tsx";
import type { CallResult } from "../tools/call-result.ts";

/** Raster images. An SVG can refer to other files, so it is shown as text. */
const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
const BASE64 = /^[\w+/]+={0,2}$/;
const MAX_PARTS = 100;

/** The result of a call. Only its images are more than text. */
export function ToolResult({ result }: { readonly result: CallResult }): JSX.Element {
  const { content, structuredContent, isError } = result;
  const shown = content.slice(0, MAX_PARTS);
  return (
    <div class={isError ? "result error" : "result"} role="group" aria-label="Result">
      {shown.map((part, index) => (
        // The parts of a result never change.
        <ResultPart key={String(index)} part={part} number={index + 1} />
      ))}
      {shown.length < content.length && <p class="note">{content.length - shown.length} more parts are not shown.</p>}
      {content.length === 0 && structuredContent === undefined && <p>The result is empty.</p>}
      {structuredContent !== undefined && (
        <>
          <p>Structured content:</p>
          <JsonBlock of={structuredContent} label="Structured content" />
        </>
      )}
    </div>
  );
}

function ResultPart({ part, number }: { readonly part: unknown; readonly number: number }): JSX.Element {
  const label = `Part ${number} of the result`;
  if (!isObject(part)) return <JsonBlock of={part} label={label} />;
  const { type, text, mimeType, data, resource } = part;
  if (type === "text" && typeof text === "string") return <TextBlock of={text} label={label} />;
  if (type === "image" && typeof mimeType === "string" && IMAGE_TYPES.has(mimeType) && typeof data === "string" && BASE64.test(data))
    return <img src={`data:${mimeType};base64,${data}`} alt={`Image ${number} of the result, ${mimeType}`} />;
  if (type === "resource" && isObject(resource) && typeof resource["text"] === "string" && typeof resource["uri"] === "string")
    return (
      <>
        <TextBlock of={`Resource ${resource["uri"]}`} label={`Address of part ${number}`} />
        <TextBlock of={resource["text"]} label={label} />
      </>
    );
  return <JsonBlock of={part} label={label} />;
}
