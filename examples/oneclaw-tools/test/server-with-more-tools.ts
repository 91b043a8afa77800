/** The server with the built-in tools and those of `more-tools.ts`. */
import { serve } from "../src/serve.ts";

await serve([new URL("../src/tools/built-in.ts", import.meta.url).href, new URL("more-tools.ts", import.meta.url).href]);
