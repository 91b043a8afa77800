import { CREDENTIAL_NAME } from "../observability/redact.ts";

/** The text in place of a secret. */
export const MASK = "***";

/** The password of a URL, or the credentials of an Authorization header. */
const EMBEDDED_SECRET = /(:\/\/[^\s/:@]*:)[^\s/@]+(?=@)|(\b(?:bearer|basic) +)\S+/gi;

/** `NAME=value` or a header `Name: value` with the name of a credential, anywhere in an argument. */
const NAMED_SECRET = new RegExp(`([^=:?&\\s/]*(?:${CREDENTIAL_NAME.source})[^=:?&\\s/]*(?:=|: *))[^&\\s]+`, "gi");

/** Masks secrets in a command that, by mistake, contains a whole command line. */
export function maskCommand(command: string): string {
  return maskArgs(command.split(" ")).join(" ");
}

/** Masks the value of a flag like `--api-key`, in the same argument or the next, and secrets inside an argument. */
export function maskArgs(args: readonly string[]): string[] {
  return args.map((arg, index) => {
    const previous = args[index - 1] ?? "";
    if (previous.startsWith("-") && !previous.includes("=") && !arg.startsWith("-") && CREDENTIAL_NAME.test(previous)) return MASK;
    // The value of a flag may contain spaces.
    const [name = ""] = /^-[^=\s]*=/.exec(arg) ?? [];
    if (CREDENTIAL_NAME.test(name)) return `${name}${MASK}`;
    return arg.replace(EMBEDDED_SECRET, `$1$2${MASK}`).replace(NAMED_SECRET, `$1${MASK}`);
  });
}
