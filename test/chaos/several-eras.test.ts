import { testChaos } from "./every-fault.ts";

testChaos(["dual", "changing"]);
