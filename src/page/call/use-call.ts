import type { Progress } from "@modelcontextprotocol/client";
import { useEffect, useRef, useState } from "preact/hooks";
import { isObject } from "../form/json-object.ts";
import type { CallResult } from "../tools/call-result.ts";
import type { ListedTool } from "../tools/listed-tool.ts";
import type { LoadCalls } from "../tools/use-tools.ts";

export type Call =
  | { readonly kind: "none" }
  | { readonly kind: "cancelled" }
  | { readonly kind: "running"; readonly progress: Progress | undefined }
  | { readonly kind: "done"; readonly result: CallResult; readonly durationMs: number }
  | { readonly kind: "failed"; readonly error: unknown; readonly durationMs: number };

export interface CallControl {
  readonly call: Call;
  readonly start: (args: unknown, mayAsk: boolean) => void;
  readonly cancel: () => void;
}

/** The last call of a tool. It is cancelled when its panel is closed. */
export function useCall(tool: ListedTool, loadCalls: LoadCalls): CallControl {
  const [call, setCall] = useState<Call>({ kind: "none" });
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  const start = (args: unknown, mayAsk: boolean): void => {
    const controller = new AbortController();
    current.current?.abort();
    current.current = controller;
    const startedAt = performance.now();
    const set = (next: Call): void => {
      if (current.current === controller) setCall(next);
    };
    set({ kind: "running", progress: undefined });
    const { signal } = controller;
    loadCalls()
      .then((calls) =>
        calls.callTool(tool, isObject(args) ? args : {}, {
          mayAsk,
          signal,
          onProgress: (progress) => !signal.aborted && set({ kind: "running", progress }),
        }),
      )
      .then(
        (result) => set({ kind: "done", result, durationMs: performance.now() - startedAt }),
        (error: unknown) =>
          set(signal.aborted ? { kind: "cancelled" } : { kind: "failed", error, durationMs: performance.now() - startedAt }),
      );
  };
  return { call, start, cancel: () => current.current?.abort() };
}
