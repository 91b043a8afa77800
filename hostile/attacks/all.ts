import type { Attack } from "../attack.ts";
import { ARGUMENT_ATTACKS, LIST_ATTACKS } from "./arguments.ts";
import { BODY_ATTACKS } from "./bodies.ts";
import { HTTP_ATTACKS } from "./http.ts";
import { ERROR_ATTACKS, LINE_ATTACKS } from "./lines.ts";
import { NAME_ATTACKS } from "./names.ts";
import { POISON_ATTACKS } from "./poison.ts";
import { RESULT_ATTACKS } from "./results.ts";

/** What the machine itself does to the figures. */
const NOTHING: Attack = {
  name: "nothing at all",
  run: async ({ attacker }) => {
    await attacker.open();
    await attacker.callTool("echo", { text: "t", delayMs: 2000 });
  },
};

/** In every run, however short. */
export const FIRST_ATTACKS: readonly Attack[] = [NOTHING, ...POISON_ATTACKS];

export const OTHER_ATTACKS: readonly Attack[] = [
  ...BODY_ATTACKS,
  ...ERROR_ATTACKS,
  ...LINE_ATTACKS,
  ...NAME_ATTACKS,
  ...ARGUMENT_ATTACKS,
  ...LIST_ATTACKS,
  ...RESULT_ATTACKS,
  ...HTTP_ATTACKS,
];
