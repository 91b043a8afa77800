// Writes dist/: the program in one bundle, its page, with the licences of the packages in it. `npm run build`. Types are checked by `npm run check`.

import { chmodSync, renameSync, rmSync } from "node:fs";
import { bundle, bundledPackages, inRoot } from "./bundle.ts";
import { bundlePage } from "./page.ts";
import { writeThirdParty } from "./third-party.ts";

// A build that is interrupted leaves the former one.
const draft = "dist.new";
rmSync(inRoot(draft), { recursive: true, force: true });
const { metafile } = await bundle(draft);
const pageMetafile = await bundlePage(inRoot(`${draft}/page`));
const packages = new Set([...bundledPackages(metafile), ...bundledPackages(pageMetafile)]);
writeThirdParty([...packages], inRoot(`${draft}/third-party`));
chmodSync(inRoot(`${draft}/main.js`), 0o755);
rmSync(inRoot("dist"), { recursive: true, force: true });
renameSync(inRoot(draft), inRoot("dist"));
