import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { inRoot } from "./bundle.ts";

const LICENSE_FILE = /^(?:licen[cs]e|copying|notice)(?:[.-]|$)/i;

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly license?: string;
}

/**
 * Writes a folder for each package in the bundle: its licence, and a `package.json` with its name and version. Scanners and the SBOM of the image
 * find packages by such files.
 *
 * @throws Error if a package has no licence.
 */
export function writeThirdParty(packages: readonly string[], directory: string): void {
  for (const folder of packages) {
    const { name, version, license } = JSON.parse(readFileSync(inRoot(join(folder, "package.json")), "utf8")) as Manifest;
    const texts = readdirSync(inRoot(folder)).filter((file) => LICENSE_FILE.test(file));
    if (license === undefined || texts.every((file) => /^notice/i.test(file)))
      throw new Error(`${folder} has no licence, so it must not be in the bundle`);
    const target = join(directory, `${name.replace("/", "+")}@${version}`);
    mkdirSync(target, { recursive: true });
    writeFileSync(join(target, "package.json"), `${JSON.stringify({ name, version, license }, null, 2)}\n`);
    for (const file of texts) cpSync(inRoot(join(folder, file)), join(target, file));
  }
}
