// The result of a device as the content of an MCP result.

import type { CallToolResult } from "@modelcontextprotocol/server";
import { disableTypes, imageSize, types } from "image-size";
import type { ToolResult } from "./registry.ts";

/** The types of MCP clients and model providers, by the names of image-size. */
const MEDIA_TYPES = new Map(Object.entries({ png: "image/png", jpg: "image/jpeg", webp: "image/webp", gif: "image/gif" }));
/** Of either side. A larger image could need gigabytes when it is decoded. */
const MAX_SIDE_PIXELS = 8192;
const IMAGE = /^data:(image\/(?:png|jpeg|webp|gif));base64,/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

disableTypes(types.filter((type) => !MEDIA_TYPES.has(type)));

const errorOf = (text: string): CallToolResult => ({ content: [{ type: "text", text }], isError: true });

/** An output that is a data URL of an image becomes an image. */
export function toContent({ success, output, error }: ToolResult): CallToolResult {
  if (!success) return errorOf(error || "the tool has failed");
  const [prefix = "", mimeType = ""] = IMAGE.exec(output) ?? [];
  if (mimeType === "") return { content: [{ type: "text", text: output }] };
  const data = output.slice(prefix.length);
  const problem = problemOf(data, mimeType);
  if (problem !== undefined) return errorOf(`the device has sent a broken image: ${problem}`);
  return { content: [{ type: "image", data, mimeType }] };
}

function problemOf(data: string, mimeType: string): string | undefined {
  if (!BASE64.test(data)) return "it is not base64";
  try {
    const { type = "", width, height } = imageSize(Buffer.from(data, "base64"));
    if (MEDIA_TYPES.get(type) !== mimeType) return `it is not ${mimeType}`;
    return Math.min(width, height) < 1 || Math.max(width, height) > MAX_SIDE_PIXELS ? `it has ${width} x ${height} pixels` : undefined;
  } catch {
    return `it is not ${mimeType}`;
  }
}
