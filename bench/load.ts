// The load process: one scenario against one target. Its only argument is a
// LoadConfig as JSON. It prints the result as JSON.

import { runCalls } from "./calls-load.ts";
import { type LoadConfig, parseLoadConfig } from "./load-contract.ts";
import { runProgress } from "./progress-load.ts";
import { runSessions } from "./sessions-load.ts";
import { runStreams } from "./streams-load.ts";
import { runTurns } from "./turns-load.ts";

const result = await run(parseLoadConfig(process.argv[2] ?? ""));
process.stdout.write(`${JSON.stringify(result)}\n`);

async function run(config: LoadConfig): Promise<object> {
  switch (config.kind) {
    case "calls":
      return runCalls(config);
    case "progress":
      return runProgress(config);
    case "sessions":
      return runSessions(config);
    case "turns":
      return runTurns(config);
    case "streams":
      break;
  }
  return runStreams(config);
}
