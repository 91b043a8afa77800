import { kindOfServer } from "../src/server/pool.ts";

/** The states of knowledge about a server, each with its argument for `kindOfServer`. */
const ERAS = [
  ["not known yet", {}],
  ["no sessions", { shared: "modern" }],
  ["sessions; a second process has none, or is still asked", { shared: "legacy" }],
  ["sessions only", { shared: "legacy", second: "legacy" }],
] as const;

/** Returns the table of the servers that clients get, as ARCHITECTURE.md shows it. */
export function serversMarkdown(): string {
  const rows = (["auto", "session", "shared"] as const).flatMap((isolation) =>
    ERAS.map(([known, era]) => {
      const kinds = (["session", "request"] as const).flatMap((client) =>
        [false, true].map((isAskable) => kindOfServer(isolation, era, client, isAskable)),
      );
      return { isolation: `\`${isolation}\``, known, kinds: isolation === "session" ? [...kinds.slice(0, 2), "–", "–"] : kinds };
    }),
  );
  // A server gets no discovery with ISOLATION=session. With ISOLATION=shared, all eras are alike.
  const shown = rows.filter(({ isolation, known }) => isolation === "`auto`" || known === "sessions only");
  const lines = shown.map(({ isolation, known, kinds }) => [isolation, isolation === "`shared`" ? "any" : known].concat(kinds));
  const head = ["ISOLATION", "the server has", "session", "session that can be asked", "request", "request that can be asked"];
  return [head, head.map(() => "---"), ...lines].map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}
