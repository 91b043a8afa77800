import { describe, expect, it } from "vitest";
import { descriptorPath, PodFolder, SIDECAR_DESCRIPTOR, SIDECAR_POD, TRADING_DESCRIPTOR, TRADING_POD } from "./pod-folder.ts";

const ENVIRONMENT = { TRADING_API_TOKEN: "resolved-token-value" };

const DEFAULTS_POD = `x-claw:
  pod: trading-desk
  tools-defaults:
    - service: trading-api
      allow:
        - get_market_context

services:
  analyst:
    x-claw:
      cllama: passthrough
      tools:
        - ...                        # inherit pod defaults
        - service: trading-api
          allow:
            - execute_trade          # add executor-only tool
`;

/** Returns the names of the tools of each agent, or the problems. */
function compiled(pod: string, service: string, descriptor: object): unknown {
  using folder = new PodFolder(pod, { [descriptorPath(service)]: descriptor });
  const { agents, problems } = folder.compile(ENVIRONMENT);
  if (problems.length > 0) return problems.map(({ line, text }) => `${line}: ${text}`);
  return Object.fromEntries(agents.map(({ name, manifest }) => [name, manifest.tools.map((tool) => tool.name)]));
}

describe("the pods in the documentation of managed tools", () => {
  it("the one with two agents gives each the tools that it is granted", () => {
    expect(compiled(TRADING_POD, "trading-api", TRADING_DESCRIPTOR)).toEqual({
      analyst: ["trading-api.get_market_context"],
      executor: ["trading-api.execute_trade", "trading-api.get_market_context"],
    });
  });

  it("the one with a sidecar gives the agent the tools of the sidecar", () => {
    expect(compiled(SIDECAR_POD, "perplexity", SIDECAR_DESCRIPTOR)).toEqual({ analyst: ["perplexity.search"] });
  });

  it("the one with defaults is a part of a pod: it lacks the service, and the surface", () => {
    expect(compiled(DEFAULTS_POD, "trading-api", TRADING_DESCRIPTOR)).toEqual([
      "4: the pod has no service trading-api",
      "14: the pod has no service trading-api",
    ]);
    const withService = `${DEFAULTS_POD}  trading-api:\n    expose: ["4000"]\n`;
    expect(compiled(withService, "trading-api", TRADING_DESCRIPTOR)).toEqual([
      "4: analyst may not reach trading-api: add service://trading-api to its x-claw.surfaces",
      "14: analyst may not reach trading-api: add service://trading-api to its x-claw.surfaces",
    ]);
    const whole = withService.replace("cllama: passthrough", 'cllama: passthrough\n      surfaces: ["service://trading-api"]');
    expect(compiled(whole, "trading-api", TRADING_DESCRIPTOR)).toEqual({
      analyst: ["trading-api.execute_trade", "trading-api.get_market_context"],
    });
  });
});
