import { ONE_ERA, testChaos } from "./every-fault.ts";

testChaos(ONE_ERA);
