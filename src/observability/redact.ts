/** Names of variables, flags and headers whose values are most likely secret. */
export const CREDENTIAL_NAME = /KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|PRIVATE/i;
/** A shorter value would blot out ordinary words. */
const MIN_SECRET_LENGTH = 8;
const MASK = "***";

export type Redact = (text: string) => string;

/** Makes a function that masks the values of all variables whose names look like credentials, wherever they occur in a text. */
export function createRedactor(environment: Readonly<Record<string, string | undefined>>): Redact {
  const secrets = Object.entries(environment)
    .filter(([name]) => CREDENTIAL_NAME.test(name))
    // Logs come in lines, and so does a private key.
    .flatMap(([, value]) => (value ?? "").split(/\r?\n/))
    .filter((secret) => secret.length >= MIN_SECRET_LENGTH)
    // The longest first, so that a secret that contains another one is masked whole.
    .toSorted((a, b) => b.length - a.length);
  if (secrets.length === 0) return (text) => text;
  const pattern = new RegExp(secrets.map((secret) => RegExp.escape(secret)).join("|"), "g");
  return (text) => text.replace(pattern, MASK);
}
