// Makes the disk slow for the sidecar that loads this first: written data never reaches it.
import fs from "node:fs";

fs.fsync = () => undefined;
