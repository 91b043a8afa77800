import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

interface Props<Module> {
  readonly load: () => Promise<Module>;
  readonly children: (module: Module) => ComponentChildren;
}

/** A part of the page whose code is loaded when it is first shown. */
export function Loaded<Module>({ load, children }: Props<Module>): JSX.Element {
  const [state, setState] = useState<{ readonly module: Module } | "loading" | "failed">("loading");
  useEffect(() => {
    load().then(
      (module) => setState({ module }),
      () => setState("failed"),
    );
  }, []);
  if (state === "loading") return <p>Loading…</p>;
  // The sidecar may have been replaced by one of another version.
  if (state === "failed") return <p class="error">This part of the page cannot be loaded. Reload the page.</p>;
  return <>{children(state.module)}</>;
}
