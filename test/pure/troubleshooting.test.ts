import { describe, expect, it } from "vitest";
import { OPTIONS } from "../../src/config/options.ts";
import { ERROR_CATALOG } from "../../src/error-catalog/error-catalog.ts";
import { links, type Markdown, readDocument, readDocuments, tableAfter } from "../support/markdown.ts";
import { isLiteral, isPrinted } from "../support/messages.ts";

const TROUBLESHOOTING = readDocument("docs/TROUBLESHOOTING.md");
const GUIDES = readDocuments().filter(({ path }) => /^docs\/(operations\/.*|TROUBLESHOOTING|GLOSSARY)\.md$/.test(path));

/** Names in capitals that are neither options nor error codes: variables of Node, and the first word of a result. */
const FOREIGN_NAMES = ["NODE_DEBUG", "NODE_OPTIONS", "INVALID_ARGS"];
const KNOWN_NAMES = new Set([
  ...Object.keys(ERROR_CATALOG),
  ...Object.values(OPTIONS).flatMap(({ variable }) => [variable, variable.replace("CLAW_MCP_STDIO_", "")]),
  ...FOREIGN_NAMES,
]);

/** Texts in backticks after one of these words. */
function quotes(words: string): string[] {
  return [...TROUBLESHOOTING.prose.matchAll(new RegExp(`(?:${words})\\s+\`([^\`]+)\``, "g"))].map(([, text = ""]) => text);
}

function namesInCapitals({ prose }: Markdown): string[] {
  return prose.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g) ?? [];
}

describe("docs/TROUBLESHOOTING.md", () => {
  it("quotes only log messages that the program writes", () => {
    const messages = quotes("log message");
    expect(messages.length).toBeGreaterThan(10);
    expect(messages.filter((message) => !isLiteral(message))).toEqual([]);
  });

  it("quotes only reasons and error messages that the program prints", () => {
    const texts = [
      ...quotes("error message|reason|prints|says"),
      ...tableAfter(TROUBLESHOOTING, "text after").map(([cell = ""]) => cell.replaceAll("`", "")),
    ];
    expect(texts.length).toBeGreaterThan(10);
    expect(texts.filter((text) => !isPrinted(text) && text !== "ECONNREFUSED")).toEqual([]);
  });

  it("has only error codes that exist in its table of codes", () => {
    const codes = tableAfter(TROUBLESHOOTING, "## By error code\n").flatMap(([names = ""]) => names.split(", "));
    expect(codes).toContain("UPSTREAM_FAILED");
    expect(codes.filter((code) => !(code in ERROR_CATALOG))).toEqual([]);
  });

  it("links each of its codes to a section of its own", () => {
    const rows = tableAfter(TROUBLESHOOTING, "## By error code\n");
    expect(rows.filter(([, section = ""]) => !links({ ...TROUBLESHOOTING, prose: section }).some((link) => link.startsWith("#")))).toEqual(
      [],
    );
  });
});

describe("the operator's guides", () => {
  it.each(GUIDES)("name only options and error codes that exist: $path", (guide) => {
    expect(namesInCapitals(guide).filter((name) => !KNOWN_NAMES.has(name))).toEqual([]);
  });
});
