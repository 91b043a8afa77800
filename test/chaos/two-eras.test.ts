// A file of its own, so that these runs and those of the other file are at the same time.
import { testChaos } from "./every-fault.ts";

testChaos(["dual", "changing"]);
