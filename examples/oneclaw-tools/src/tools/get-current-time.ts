import { type Tool, ToolError } from "../tool.ts";

interface Arguments {
  readonly timezone?: string;
  readonly format?: "ISO8601" | "human_readable";
}

export const getCurrentTime: Tool = {
  name: "get_current_time",
  description: "Get the current date and time",
  parameters: {
    type: "object",
    properties: {
      timezone: { type: "string", description: "Timezone identifier, such as Asia/Tokyo. Default: that of the device", maxLength: 100 },
      format: { type: "string", enum: ["ISO8601", "human_readable"], description: "Output format. Default: ISO8601" },
    },
    additionalProperties: false,
  },
  permissions: [],
  timeoutMs: 5000,
  isReadOnly: true,
  execute({ timezone, format = "ISO8601" }: Arguments): string {
    const now = new Date();
    const inZone = (locale: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat =>
      new Intl.DateTimeFormat(locale, { ...options, ...(timezone === undefined ? {} : { timeZone: timezone }) });
    try {
      if (format === "human_readable") return inZone("en-US", { dateStyle: "full", timeStyle: "long" }).format(now);
      // Swedish dates are those of ISO 8601, with a space instead of the T.
      const local = inZone("sv-SE", { dateStyle: "short", timeStyle: "medium" }).format(now).replace(" ", "T");
      const zone = inZone("en-US", { timeZoneName: "longOffset" }).formatToParts(now);
      return local + (zone.find(({ type }) => type === "timeZoneName")?.value.replace("GMT", "") || "+00:00");
    } catch (error) {
      if (error instanceof RangeError) throw new ToolError(`The timezone ${JSON.stringify(timezone)} is unknown`, "validation_error");
      throw error;
    }
  },
};
