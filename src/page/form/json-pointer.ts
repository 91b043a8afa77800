/** Returns the names in a JSON pointer of a URI fragment, such as `#/properties/a%20b` (RFC 6901 §6). */
export function pointerNames(fragment: string): string[] {
  return fragment
    .split("/")
    .slice(1)
    .map((part) => decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
}
