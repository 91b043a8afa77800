/** A command of the shell, without its quotes. */
export type Words = readonly string[];

/** Thrown for all that would have the shell do more than to run the given commands. */
export class Injection extends Error {}

/**
 * Splits a line as sh does: quotes are removed, `;` and line ends separate commands.
 * @throws {Injection} for an expansion, a redirection or another operator.
 */
export function splitCommands(line: string): Words[] {
  const commands: string[][] = [[]];
  let word: string | undefined;
  const endWord = (): void => {
    if (word !== undefined) commands.at(-1)?.push(word);
    word = undefined;
  };
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? "";
    if (character === "'") {
      const end = line.indexOf("'", at + 1);
      if (end === -1) throw new Injection("a quote is not closed");
      word = (word ?? "") + line.slice(at + 1, end);
      at = end;
    } else if (character === "\\") word = (word ?? "") + (line[++at] ?? "");
    else if (/[ \t]/.test(character)) endWord();
    else if (/[;\n]/.test(character)) {
      endWord();
      commands.push([]);
    } else if (/["$`&|<>()*?[\]{}~#!]/.test(character)) throw new Injection(`${character} is not quoted`);
    else word = (word ?? "") + character;
  }
  endWord();
  return commands.filter((words) => words.length > 0);
}
