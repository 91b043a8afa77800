import { testChaos } from "./every-fault.ts";

testChaos(["legacy", "modern"]);
