/** Reads a response up to a limit. A longer one is not read to its end. */
export async function readText(response: Response, maxBytes: number): Promise<{ readonly text: string; readonly isComplete: boolean }> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    chunks.push(chunk);
    bytes += (chunk as Uint8Array).length;
    if (bytes > maxBytes) return { text: Buffer.concat(chunks).toString(), isComplete: false };
  }
  return { text: Buffer.concat(chunks).toString(), isComplete: true };
}
