import type { NamedRoute } from "../route.ts";
import type { Principal } from "../../sessions/session.ts";
import { PageFiles } from "./page-files.ts";
import { createReadState, type PageStateOptions } from "./page-state.ts";
import { PageStreams, type PageStreamsOptions } from "./page-streams.ts";

export interface PageOptions extends PageStateOptions, Omit<PageStreamsOptions, "readState" | "defects" | "memory"> {
  readonly memory: PageStateOptions["memory"] & PageStreamsOptions["memory"];
  readonly defects: PageStreamsOptions["defects"] & ConstructorParameters<typeof PageFiles>[0];
}

/** The page for people: its files, and the event streams of those that are open. */
export class Page {
  readonly routes: readonly NamedRoute[];
  readonly #streams: PageStreams;

  constructor(options: PageOptions) {
    const files = new PageFiles(options.defects, options.endpointPath);
    const streams = (this.#streams = new PageStreams({ ...options, readState: createReadState(options) }));
    this.routes = [
      ["page", files.indexRoute],
      ["pageEvents", streams.route],
      ["pageFile", files.fileRoute],
    ];
  }

  /** Ends the streams of a principal. */
  endAllOf(owner: Principal): void {
    this.#streams.endAllOf(owner);
  }

  /** Shows the last state, and ends all streams. */
  close(): void {
    this.#streams.close();
  }
}
