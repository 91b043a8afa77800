import type { Random } from "../../chaos/random.ts";
import type { Attack } from "../stage.ts";
import { ARGUMENT_ATTACKS } from "./arguments.ts";
import { BODY_ATTACKS } from "./bodies.ts";
import { BURST_ATTACKS, HTTP_ATTACKS } from "./http.ts";
import { LINE_ATTACKS, RESULT_ATTACKS } from "./lines.ts";
import { MODERN_SERVER_ATTACKS } from "./modern-server.ts";
import { NAME_ATTACKS } from "./names.ts";
import { afterPoison, ENVELOPE_ATTACKS, HIDDEN_ID_ATTACKS } from "./poison.ts";
import { STATELESS_ATTACKS } from "./stateless.ts";
import { SESSION_ATTACKS } from "./sessions.ts";
import { SUM_ATTACKS } from "./sums.ts";

/** Shows the effect of the machine itself on the figures. */
const NOTHING: Attack = {
  name: "nothing at all",
  run: ({ attacker }) => attacker.callTool("echo", { text: "t", delayMs: 2000 }),
};

const SHORT_RUN_PLACES = 3;

const OTHER_ATTACKS: readonly Attack[] = [
  ...BODY_ATTACKS,
  ...LINE_ATTACKS,
  ...NAME_ATTACKS,
  ...ARGUMENT_ATTACKS,
  ...RESULT_ATTACKS,
  ...HTTP_ATTACKS,
  ...BURST_ATTACKS,
  ...STATELESS_ATTACKS,
  ...MODERN_SERVER_ATTACKS,
  ...SESSION_ATTACKS,
].map(afterPoison);

export const ALL_ATTACKS: readonly Attack[] = [NOTHING, ...ENVELOPE_ATTACKS, ...HIDDEN_ID_ATTACKS, ...OTHER_ATTACKS, ...SUM_ATTACKS];

/** Returns the attacks in the order of a short run. Every run has all poison attacks on members, and some of those on ids. */
export function shuffledAttacks(random: Random): readonly Attack[] {
  const places = random.shuffled(HIDDEN_ID_ATTACKS);
  const first = places.splice(0, SHORT_RUN_PLACES);
  const others = random.shuffled([...places, ...OTHER_ATTACKS]);
  return [NOTHING, ...first, ...ENVELOPE_ATTACKS, ...others];
}
