const BASE64_FORM = /^=\?base64\?(.*)\?=$/i;
const CANONICAL_BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** The most common values: printable ASCII without blanks around it, in plain form. */
const SIMPLE = /^(?!=\?)[!-~](?:[ -~]*[!-~])?$/;
/** Printable ASCII, and tabs within. */
const PLAIN = /^[\t -~]*$/;

/**
 * Returns the value that a client means by a header (MCP 2026-07-28, basic/transports, header encoding): plain ASCII without surrounding
 * blanks, or the UTF-8 text in `=?base64?…?=`. Returns undefined for anything else.
 */
export function decodeHeaderValue(header: string): string | undefined {
  if (SIMPLE.test(header)) return header;
  const value = header.replaceAll(/^[\t ]+|[\t ]+$/g, "");
  if (!PLAIN.test(value)) return undefined;
  const encoded = BASE64_FORM.exec(value)?.[1];
  if (encoded === undefined) return value;
  if (!CANONICAL_BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  // Unused bits of the last character must be zero, or one value would have several forms.
  if (bytes.toString("base64") !== encoded) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
