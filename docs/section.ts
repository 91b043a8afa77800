/**
 * Replaces the text between `<!-- NAME: begin … -->` and `<!-- NAME: end -->`.
 *
 * @throws if the document has no such section.
 */
export function replaceSection(document: { readonly path: string; readonly text: string }, name: string, content: string): string {
  const { path, text } = document;
  const begin = new RegExp(`<!-- ${name}: begin[^>]*-->\n`).exec(text);
  const end = text.indexOf(`<!-- ${name}: end -->`);
  if (begin === null || end < begin.index) throw new Error(`${path} has no section ${name}`);
  return `${text.slice(0, begin.index + begin[0].length)}\n${content}\n\n${text.slice(end)}`;
}
