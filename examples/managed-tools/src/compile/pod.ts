import { z } from "zod";
import { MAX_MS } from "../manifest.ts";

/** The entry of a list of tools that stands for `tools-defaults`. */
export const INHERITED = "...";

const Grant = z.strictObject({
  service: z.string(),
  allow: z.union([z.literal("all"), z.array(z.string())], { error: "expected all, or a list of names of tools" }),
});
const Grants = z.array(z.union([z.literal(INHERITED), Grant], { error: `expected ${INHERITED}, or an object with service and allow` }));

const Limits = z
  .strictObject({
    "max-rounds": z.int().positive(),
    "timeout-per-tool-ms": z.int().positive().max(MAX_MS),
    "total-timeout-ms": z.int().positive().max(MAX_MS),
    "max-tool-result-bytes": z.int().min(256),
  })
  .partial();

const ServiceClaw = z.looseObject({
  cllama: z.union([z.string().min(1), z.array(z.string().min(1)).nonempty()]).optional(),
  surfaces: z.array(z.unknown()).optional(),
  tools: Grants.optional(),
  "tools-policy": Limits.optional(),
  "describe-file": z.string().optional(),
  "mcp-stdio": z.looseObject({ command: z.string(), args: z.array(z.string()).default([]) }).optional(),
});

const Service = z.looseObject({
  image: z.string().optional(),
  expose: z.array(z.union([z.string(), z.number()])).optional(),
  environment: z.union([z.array(z.string()), z.record(z.string(), z.union([z.string(), z.number(), z.boolean(), z.null()]))]).optional(),
  "x-claw": ServiceClaw.nullish(),
});

/** The parts of a pod file that concern tools. Everything else is passed over. */
export const Pod = z.looseObject({
  "x-claw": z.looseObject({ "tools-defaults": Grants.optional(), "tools-policy": Limits.optional() }).optional(),
  services: z.record(z.string(), Service.nullable()),
});

export type Pod = z.infer<typeof Pod>;
export type Service = z.infer<typeof Service>;
export type ServiceClaw = z.infer<typeof ServiceClaw>;
export type Grant = z.infer<typeof Grant>;
export type Grants = z.infer<typeof Grants>;
export type Limits = z.infer<typeof Limits>;

/** Returns the variables of a service that have a value, in either form that Compose has. */
export function variablesOf({ environment = {} }: Service): readonly (readonly [name: string, value: string])[] {
  if (!Array.isArray(environment))
    return Object.entries(environment).flatMap(([name, value]) => (value === null ? [] : [[name, String(value)]]));
  return environment.flatMap((each) => {
    const [, name, value] = /^([^=]+)=(.*)$/s.exec(each) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value]];
  });
}

/** Returns a variable of a service, or undefined if it has no value. */
export function variableOf(service: Service, name: string): string | undefined {
  return variablesOf(service).find(([each]) => each === name)?.[1];
}

/** `$$`, `$NAME`, `${NAME}`, and `${NAME` with an operator: `:-` and `-` for a default, `:+` and `+` for a replacement, `:?` and `?`. */
const VARIABLE = /\$(?:\$|(\w+)|\{(\w+)(?:(:?)([-+?])((?:[^{}]|\{[^{}]*\})*))?\})/g;

/** Replaces variables as Compose does. @returns undefined if a variable is not set that has no default. */
export function interpolate(text: string, environment: NodeJS.ProcessEnv): string | undefined {
  let isComplete = true;
  const result = text.replace(
    VARIABLE,
    (match, plain?: string, braced?: string, colon?: string, operator?: string, operand: string = "") => {
      if (match === "$$") return "$";
      const value = environment[plain ?? braced ?? ""];
      // With a colon, an empty variable counts as one that is not set.
      const isSet = value !== undefined && (value !== "" || colon !== ":");
      if (operator === "+") return isSet ? (interpolate(operand, environment) ?? "") : "";
      if (isSet) return value;
      const fallback = operator === "-" ? interpolate(operand, environment) : undefined;
      if (fallback === undefined) isComplete = false;
      return fallback ?? "";
    },
  );
  return isComplete ? result : undefined;
}
