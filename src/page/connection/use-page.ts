import { useEffect, useState } from "preact/hooks";
import { type PageModel, updatedModel } from "./page-model.ts";
import { followUpdates } from "./update-stream.ts";

export type Connection =
  | { readonly kind: "connecting" | "live" }
  | { readonly kind: "lost"; readonly reason: string }
  /** A token is needed, or the given one is wrong. */
  | { readonly kind: "unauthorized"; readonly isWrong: boolean };

export interface Page {
  readonly connection: Connection;
  readonly model: PageModel | undefined;
}

export interface TokenEntry {
  /** Undefined before one is entered. */
  readonly token: string | undefined;
}

/** Follows the sidecar's state with a token. A new entry begins a new connection. */
export function usePage(entry: TokenEntry): Page {
  const [page, setPage] = useState<Page>({ connection: { kind: "connecting" }, model: undefined });
  useEffect(() => {
    // A second wrong token is announced too.
    setPage((former) =>
      former.connection.kind === "unauthorized" ? { ...former, connection: { kind: "unauthorized", isWrong: false } } : former,
    );
    return followUpdates(entry.token, {
      onUpdate: (update, isFirst) =>
        setPage(({ model }) => ({ connection: { kind: "live" }, model: updatedModel(isFirst ? undefined : model, update) })),
      onLost: (reason) => setPage(({ model }) => ({ model, connection: { kind: "lost", reason } })),
      onUnauthorized: () => setPage({ model: undefined, connection: { kind: "unauthorized", isWrong: entry.token !== undefined } }),
    });
  }, [entry]);
  return page;
}
