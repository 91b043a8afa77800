/**
 * Returns the memory that V8 needs for a text, in bytes. With any character beyond Latin-1, each UTF-16 unit needs two bytes. Latin-1 itself
 * is not told apart from these: its texts count twice.
 *
 * @param byteLength the UTF-8 length of the text.
 */
export function textMemoryBytes(text: string, byteLength = Buffer.byteLength(text)): number {
  return byteLength === text.length ? byteLength : text.length * 2;
}
