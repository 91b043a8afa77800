import type { Tool } from "../tool.ts";
import { getCurrentTime } from "./get-current-time.ts";
import { httpRequest } from "./http-request.ts";
import { readFile } from "./read-file.ts";
import { writeFile } from "./write-file.ts";

/** Source: "Built-in Tools (V1)". */
export const tools: readonly Tool[] = [getCurrentTime, readFile, writeFile, httpRequest];
