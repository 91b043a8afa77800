import { constants, readSync } from "node:fs";
import { type Context, type Tool, ToolError } from "../tool.ts";
import { inFolder, withFile } from "./folder.ts";

interface Arguments {
  readonly path: string;
  readonly encoding?: string;
}

export const readFile: Tool = {
  name: "read_file",
  description: "Read the contents of a file from local storage",
  parameters: {
    type: "object",
    properties: {
      path: { type: "string", description: "The file path to read, relative to the folder for files", minLength: 1, maxLength: 4096 },
      encoding: { type: "string", description: "File encoding, such as UTF-8, UTF-16LE or windows-1252. Default: UTF-8", maxLength: 100 },
    },
    required: ["path"],
    additionalProperties: false,
  },
  permissions: [],
  timeoutMs: 10_000,
  isReadOnly: true,
  async execute({ path, encoding = "UTF-8" }: Arguments, { settings }: Context): Promise<string> {
    const decoder = decoderOf(encoding);
    const bytes = await inFolder(settings.folder, path, false, (place) =>
      withFile(place, path, constants.O_RDONLY, (file, { size }) => {
        const most = settings.maxFileBytes;
        if (size > most) throw new ToolError(`${path} has ${size} bytes. The limit is ${most} bytes`);
        return readUpTo(file, size);
      }),
    );
    try {
      const text = decoder.decode(bytes);
      if (!text.includes("\0")) return text;
    } catch {
      // The same error, as below.
    }
    const advice = "Read it with another encoding if it is text, or with a program for its type";
    throw new ToolError(`${path} is a binary file, or not text in ${decoder.encoding}. ${advice}`);
  },
};

function decoderOf(encoding: string): TextDecoder {
  try {
    return new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new ToolError(`The encoding ${JSON.stringify(encoding)} is unknown`, "validation_error");
  }
}

/** Reads no more if the file grows meanwhile. */
function readUpTo(file: number, most: number): Buffer {
  const buffer = Buffer.alloc(most);
  let length = 0;
  for (let read = -1; read !== 0; length += read) read = readSync(file, buffer, length, most - length, null);
  return buffer.subarray(0, length);
}
