import type { Caller } from "../../../src/session/session.ts";
import { ACCOUNT } from "./memory.ts";

/** A client without a session. */
export class StatelessCaller implements Caller {
  readonly id: string;
  readonly memory = ACCOUNT;
  callsInFlight = 0;
  readonly delivered: string[] = [];

  constructor(id = "stateless") {
    this.id = id;
  }

  beginCall(): void {
    this.callsInFlight++;
  }

  endCall(): void {
    this.callsInFlight--;
  }

  deliver(text: string): void {
    this.delivered.push(text);
  }

  deliverOnce(text: string): void {
    if (!this.delivered.includes(text)) this.deliver(text);
  }
}
