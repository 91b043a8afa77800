// Runs before an example starts: says what it is, and installs and builds what is missing. `prepare.js [FOLDER…]`, with further folders that have packages.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";

const ROOT = new URL("../", import.meta.url);
const { name, description } = JSON.parse(readFileSync("package.json", "utf8"));
process.stderr.write(`${name}: ${description}\n`);
for (const folder of [".", ...process.argv.slice(2)]) if (!isInstalled(folder)) npm(folder, "ci");
if (!existsSync(new URL("dist/main.js", ROOT))) npm(ROOT, "run", "build");

/** @param {string} folder */
function isInstalled(folder) {
  const [wanted, installed] = [`${folder}/package-lock.json`, `${folder}/node_modules/.package-lock.json`];
  return !existsSync(wanted) || (existsSync(installed) && statSync(installed).mtimeMs > statSync(wanted).mtimeMs);
}

/**
 * @param {string | URL} folder
 * @param {readonly string[]} words
 */
function npm(folder, ...words) {
  // The output of the example itself may be read by a program.
  const { status, error } = spawnSync("npm", words, { cwd: folder, stdio: ["ignore", 2, 2] });
  if (error !== undefined) process.stderr.write(`npm: ${error.message}\n`);
  if (status !== 0) process.exit(status ?? 1);
}
