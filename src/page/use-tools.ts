import { useEffect, useMemo, useState } from "preact/hooks";
import { endpointUrl } from "./format.ts";
import type { McpCalls } from "./mcp-calls.ts";
import { OpenQuestions, type Question, type ToolList } from "./tool.ts";

/** Loads the official client when it is first needed. */
export type LoadCalls = () => Promise<McpCalls>;

type Listing =
  | { readonly kind: "waiting" | "listing" }
  | { readonly kind: "listed"; readonly list: ToolList }
  /** The former list stays, with the forms that are open. */
  | { readonly kind: "failed"; readonly error: unknown; readonly list: ToolList | undefined };

/**
 * Lists the server's tools, and again after each change.
 *
 * @param serverKey changes with the server's generation; undefined while its tools must not be listed.
 */
export function useTools(endpointPath: string, token: string | undefined, serverKey: string | undefined) {
  const [listing, setListing] = useState<Listing>({ kind: "waiting" });
  const [questions, setQuestions] = useState<readonly Question[]>([]);
  const [changes, setChanges] = useState(0);
  const refresh = (): void => setChanges((count) => count + 1);

  const access = useMemo(() => {
    let calls: Promise<McpCalls> | undefined;
    const open = new OpenQuestions(setQuestions);
    const loadCalls: LoadCalls = () => {
      calls ??= import("./mcp-calls.ts").then((module) => new module.McpCalls(endpointUrl(endpointPath), token, open));
      return calls;
    };
    return { loadCalls, close: (): void => void calls?.then((each) => each.close()) };
  }, [endpointPath, token]);

  useEffect(() => {
    window.addEventListener("pagehide", access.close);
    return () => {
      window.removeEventListener("pagehide", access.close);
      access.close();
    };
  }, [access]);

  useEffect(() => {
    if (serverKey === undefined) return undefined;
    let isCurrent = true;
    const set = (next: (former: Listing) => Listing): void => {
      if (isCurrent) setListing(next);
    };
    // The former list stays until the new one is there.
    setListing((former) => (listOf(former) === undefined ? { kind: "listing" } : former));
    access
      .loadCalls()
      .then((calls) => calls.listTools())
      .then(
        (list) => set(() => ({ kind: "listed", list })),
        (error: unknown) => set((former) => ({ kind: "failed", error, list: listOf(former) })),
      );
    return () => {
      isCurrent = false;
    };
  }, [access, serverKey, changes]);

  return { loadCalls: access.loadCalls, listing, questions, refresh };
}

export function listOf(listing: Listing): ToolList | undefined {
  return "list" in listing ? listing.list : undefined;
}
