import type { Output } from "./adb-protocol.ts";
import { type Answer, type App, APPS, type DeviceState, FIRST_STATE } from "./apps.ts";
import { Injection, splitCommands, type Words } from "./shell.ts";

const NOT_FOUND = 127;

/** The commands of an Android device that the bridge uses, with its apps. */
export class StandIn {
  /** What the shell was made to do besides the commands that it knows. It stays empty. */
  readonly injections: string[] = [];
  /** All commands that were run. */
  readonly commands: Words[] = [];
  state: DeviceState;
  readonly #isOld: boolean;

  /** @param isOld bindings of `content` as before Android 11, without escapes. */
  constructor(apps: readonly string[], isOld = false) {
    this.#isOld = isOld;
    this.state = { installed: Object.fromEntries(apps.map((name) => [name, 1])), ...FIRST_STATE };
  }

  /** Runs a line of the shell, as `adb shell` sends it. */
  run(line: string): Output {
    try {
      const outputs = splitCommands(line).map((words) => this.#runCommand(words));
      return outputs.length === 1
        ? (outputs[0] ?? {})
        : { stdout: outputs.map(({ stdout = "" }) => stdout).join(""), stderr: outputs.map(({ stderr = "" }) => stderr).join("") };
    } catch (error) {
      if (!(error instanceof Injection)) throw error;
      this.injections.push(`${error.message}: ${line}`);
      return { stderr: `sh: syntax error: ${error.message}\n`, exitCode: 1 };
    }
  }

  #runCommand(words: Words): Output {
    this.commands.push(words);
    const [name = "", sub = "", third = ""] = words;
    if (name === "cmd" && sub === "package" && third === "query-services") return { stdout: this.#services(words.at(-1) ?? "") };
    if (name === "cmd" && sub === "package" && third === "list") return { stdout: this.#packages() };
    if (name === "cmd" && sub === "package" && third === "resolve-activity") return { stdout: this.#launcherOf(words.at(-1) ?? "") };
    if (name === "am" && sub === "start")
      return {
        stdout: this.#startActivity(
          new Map([
            [third, words[3] ?? ""],
            [words[4] ?? "", words[5] ?? ""],
          ]),
        ),
      };
    if (name === "unzip" && sub === "-p") return this.#unzip(third);
    if (name === "content" && sub === "call") return this.#call(words);
    this.injections.push(words.join(" "));
    return { stderr: `sh: ${name}: inaccessible or not found\n`, exitCode: NOT_FOUND };
  }

  get #apps(): App[] {
    return Object.keys(this.state.installed).flatMap((name) => APPS[name] ?? []);
  }

  #services(action: string): string {
    const lines = this.#apps.flatMap(({ packageName, services }) => services.map((service) => `${packageName}/${service}\n`));
    return action !== "com.clawseed.action.TOOL_PROVIDER" || lines.length === 0 ? "No services found\n" : lines.join("");
  }

  #packages(): string {
    const own = this.#apps.map((app) => `package:${this.#pathOf(app)}=${app.packageName}\n`);
    return ["package:/system/framework/framework-res.apk=android\n", ...own].join("");
  }

  #pathOf({ packageName }: App): string {
    const number = this.state.installed[packageName.split(".").at(-1) ?? ""];
    return `/data/app/~~Q${number}==/${packageName}-R${number}==/base.apk`;
  }

  #unzip(path: string): Output {
    const app = this.#apps.find((each) => this.#pathOf(each) === path);
    return app === undefined ? { stderr: `unzip: couldn't open ${path}\n`, exitCode: 1 } : { stdout: app.manifest };
  }

  #launcherOf(packageName: string): string {
    const launcher = this.#apps.find((app) => app.packageName === packageName)?.launcher;
    return launcher === undefined
      ? "No activity found\n"
      : `priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=false\n${launcher}\n`;
  }

  #startActivity(options: ReadonlyMap<string, string>): string {
    const [action, packageName, component] = [options.get("-a"), options.get("-p"), options.get("-n")];
    const app = this.#apps.find((each) => each.packageName === packageName || (component !== undefined && each.launcher === component));
    if (action !== undefined && !/^[\w.]+$/.test(action)) this.injections.push(`am start -a ${action}`);
    const intent = `Starting: Intent { ${action === undefined ? `cmp=${component}` : `act=${action} pkg=${packageName}`} }\n`;
    if (app === undefined || (action !== undefined && action !== app.authorizeAction))
      return `${intent}Error: Activity not started, unable to resolve Intent { act=${action} flg=0x10000000 pkg=${packageName} }\n`;
    this.state.isNotesStarted = true;
    if (action !== undefined) this.state.isNotesAuthorized = true;
    return intent;
  }

  #call(words: Words): Output {
    let [uri, method] = ["", ""];
    const extras = new Map<string, string>();
    for (let at = 2; at < words.length; at += 2) {
      const [option, value = ""] = [words[at], words[at + 1]];
      if (option === "--uri") uri = value;
      else if (option === "--method") method = value;
      else if (option === "--extra") {
        const [key, type, text] = this.#splitBinding(value);
        if (key === undefined || type !== "s" || text === undefined)
          return { stdout: `usage: adb shell content [subcommand] [options]\n\n[ERROR] Binding not well formed: ${value}\n` };
        extras.set(key, text);
      } else return { stdout: `usage: adb shell content [subcommand] [options]\n\n[ERROR] Unsupported argument: ${option}\n` };
    }
    const authority = uri.replace("content://", "");
    const app = this.#apps.find(({ packageName }) => authority.startsWith(`${packageName}.`));
    return printed(authority, app === undefined ? "absent" : app.answer(authority, method, extras, this.state));
  }

  /** Before Android 11, the value is all after the second colon. Since then, there must be two colons, and a backslash escapes. */
  #splitBinding(binding: string): readonly (string | undefined)[] {
    if (this.#isOld) return /^([^:]*):([^:]*):(.*)$/s.exec(binding)?.slice(1) ?? [];
    const parts = [""];
    for (const [part] of binding.matchAll(/\\.|[^\\]/gs)) {
      if (part === ":") parts.push("");
      else parts[parts.length - 1] += part.replace(/^\\/, "");
    }
    return parts.length === 3 ? parts : [];
  }
}

/** Prints as `content call` does. A Bundle has its entries in the order of the hashes of their keys. */
function printed(authority: string, answer: Answer): Output {
  const exception = (text: string): Output => ({
    stderr: `Error while accessing provider:${authority}\n${text}\n\tat android.os.Parcel\n`,
  });
  if (answer === "hangs") return { hangs: true };
  if (answer === "absent") return exception(`java.lang.IllegalStateException: Could not find provider: ${authority}`);
  if (answer instanceof Error) return exception(answer.message);
  if (answer === null || Buffer.isBuffer(answer))
    return { stdout: answer === null ? "Result: null\n" : Buffer.concat([Buffer.from("Result: "), answer]) };
  const entries = Object.entries(answer).sort(([one], [other]) => javaHash(one) - javaHash(other));
  return { stdout: `Result: Bundle[{${entries.map(([key, value]) => `${key}=${value}`).join(", ")}}]\n` };
}

/** String.hashCode() of Java. */
function javaHash(text: string): number {
  return Array.from(text).reduce((hash, character) => (Math.imul(31, hash) + character.charCodeAt(0)) | 0, 0);
}
