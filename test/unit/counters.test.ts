import { expect, it } from "vitest";
import { Counters } from "../../src/counters.ts";

it("counters show refusals apart from failures of accepted requests, and what there is none of is not shown by code", () => {
  const counters = new Counters();
  counters.requests.accepted = 4;
  for (const ending of ["results", "OVERLOADED", "unread", "OVERLOADED"] as const) counters.countEnding(ending);
  counters.countRefusal("OVERLOADED");
  counters.countExit("crash");
  counters.countStatus(503);
  expect(JSON.parse(JSON.stringify(counters))).toEqual({
    requests: { accepted: 4, held: 0, repeated: 0, refused: { OVERLOADED: 1 } },
    answers: { results: 1, errors: 0, dismissed: 0, unread: 1, failures: { OVERLOADED: 2 } },
    exits: { crash: 1 },
    dropped: { clientNotifications: 0, lateAnswers: 0, unknownAnswers: 0, notifications: 0, requests: 0, overlongLines: 0, noiseLines: 0 },
    policy: { invalidArguments: 0, argumentChecksGivenUp: 0, truncatedResults: 0 },
    http: { readersCutOff: 0, responses: { "503": 1 } },
    defects: 0,
  });
});
