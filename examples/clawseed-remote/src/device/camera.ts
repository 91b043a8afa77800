import { encode } from "fast-png";
import { z } from "zod";
import type { DeviceTool } from "./device-client.ts";

const SIZES = { low: [160, 120], medium: [320, 240], high: [640, 480] } as const;

/** Draws its picture: a sky, and a sun that goes round once in a minute. */
export const camera: DeviceTool = {
  name: "camera",
  description: "Take a photo",
  parameters: z.object({ quality: z.enum(["low", "medium", "high"]).optional() }),
  execute: ({ quality = "medium" }) => {
    const [width, height] = SIZES[quality as keyof typeof SIZES];
    const angle = (Date.now() / 60_000) * 2 * Math.PI;
    const sun = { x: (0.5 + 0.3 * Math.sin(angle)) * width, y: (0.5 - 0.3 * Math.cos(angle)) * height };
    const data = new Uint8Array(width * height * 3);
    for (let y = 0; y < height; y++) {
      for (let x = 0; x < width; x++) {
        const isSun = Math.hypot(x - sun.x, y - sun.y) < height / 8;
        data.set(isSun ? [255, 220, 60] : [40, 90 + (120 * y) / height, 200], 3 * (y * width + x));
      }
    }
    return `data:image/png;base64,${Buffer.from(encode({ width, height, data, channels: 3 })).toString("base64")}`;
  },
};
