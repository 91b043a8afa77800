import { SERVER_ERAS } from "../../chaos/contract.ts";
import { ONE_ERA, testChaos } from "./every-fault.ts";

testChaos(SERVER_ERAS.filter((era) => !ONE_ERA.includes(era)));
