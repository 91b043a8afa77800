/** Splits a command line at its white space, as a shell does: quotes and backslashes join words. Expands nothing. */
export function splitWords(line: string): string[] {
  const words: string[] = [];
  for (const [word] of line.matchAll(/(?:[^\s"'\\]|\\[^]|"(?:[^"\\]|\\[^])*"?|'[^']*'?)+/g)) {
    words.push(word.replaceAll(/\\([^])|"((?:[^"\\]|\\[^])*)"?|'([^']*)'?/g, unquoted));
  }
  return words;
}

function unquoted(_part: string, escaped?: string, inDouble?: string, inSingle?: string): string {
  return escaped ?? inDouble?.replaceAll(/\\(["\\$`])/g, "$1") ?? inSingle ?? "";
}
