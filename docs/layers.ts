import { PAGE_IMPORTS, PARTS } from "../build/imports-rule.ts";

/** Returns the order of the parts of `src/`, as ARCHITECTURE.md shows it. */
export function layersMarkdown(): string {
  const others = PAGE_IMPORTS.filter((part) => part !== "page");
  return `${PARTS.map(codeOf).join(" ← ")}\n\n\`page/\` imports only ${others.map(codeOf).join(" and ")}.`;
}

function codeOf(part: string): string {
  return `\`${part.endsWith(".ts") ? part : `${part}/`}\``;
}
