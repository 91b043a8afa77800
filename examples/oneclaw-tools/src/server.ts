import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type ClientCapabilities,
  type ElicitRequestFormParams,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  McpServer,
  type McpRequestContext,
  type ServerContext,
  type Tool as McpTool,
} from "@modelcontextprotocol/server";
import type { Engine } from "./engine.ts";
import type { Answer, Asker } from "./permissions.ts";
import type { Settings } from "./settings.ts";
import type { Tool, ToolResult } from "./tool.ts";

const STATUS = { type: "string", enum: ["success", "error"] };
const ERROR_TYPE = { type: "string", enum: ["timeout", "permission_denied", "execution_error", "validation_error"] };
const OUTPUT = { status: STATUS, result: {}, error_type: ERROR_TYPE, message: { type: "string" } };

/** Creates the server of one connection. */
export function createServer(engine: Engine, settings: Settings, { era }: McpRequestContext): McpServer {
  const mcp = new McpServer({ name: "oneclaw-tools", version: "1.0.0" }, { capabilities: { tools: {} } });
  // The low level, since McpServer answers an unknown tool and invalid arguments in forms of its own.
  mcp.server.setRequestHandler("tools/list", () => ({ tools: engine.tools.map(toMcp) }));
  mcp.server.setRequestHandler("tools/call", async ({ params }, context) => {
    const questions: InputRequiredResult[] = [];
    const asker = era === "legacy" ? sessionAsker(mcp, context, settings.questionTimeoutMs) : statelessAsker(context, questions);
    const result = await engine.call(params.name, params.arguments ?? {}, asker, context.mcpReq.signal);
    return questions[0] ?? toMcpResult(result);
  });
  return mcp;
}

function toMcp({ name, description, parameters, isReadOnly = false, permissions }: Tool): McpTool {
  return {
    name,
    description,
    inputSchema: parameters,
    outputSchema: { type: "object", properties: OUTPUT, required: ["status"] },
    annotations: { readOnlyHint: isReadOnly, openWorldHint: permissions.includes("INTERNET") },
  };
}

function toMcpResult(result: ToolResult): CallToolResult {
  return { content: [{ type: "text", text: JSON.stringify(result) }], structuredContent: result, isError: result.status === "error" };
}

/** A process with a session has one client, which is asked by a request. */
function sessionAsker(mcp: McpServer, { mcpReq }: ServerContext, timeout: number): Asker {
  return {
    isOnlyUser: true,
    async ask(permissions, tool) {
      if (!canAsk(mcp.server.getClientCapabilities())) return "unable";
      const options = { timeout, signal: mcpReq.signal };
      try {
        return answerOf(await mcpReq.elicitInput(form(permissions, tool, CHOICES), options), CHOICES);
      } catch {
        return mcpReq.signal.aborted ? "withdrawn" : "unanswered";
      }
    },
  };
}

/** All clients without a session share a process, which cannot distinguish them. */
function statelessAsker({ mcpReq }: ServerContext, questions: InputRequiredResult[]): Asker {
  return {
    isOnlyUser: false,
    async ask(permissions, tool) {
      const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {};
      if (!canAsk(envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined)) return "unable";
      const response = inputResponse(mcpReq.inputResponses, QUESTION);
      if (response.kind === "elicit") return answerOf(response, CHOICES_ONCE);
      // The client repeats its call with the answer.
      questions.push(inputRequired({ inputRequests: { [QUESTION]: inputRequired.elicit(form(permissions, tool, CHOICES_ONCE)) } }));
      return "unanswered";
    },
  };
}

/** A capability without a mode means forms. */
function canAsk({ elicitation }: ClientCapabilities = {}): boolean {
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}

const QUESTION = "permission";
type Choices = Readonly<Record<string, Answer>>;
const CHOICES: Choices = { Allow: "allow", Deny: "deny", "Deny and don't ask again": "never" };
const CHOICES_ONCE: Choices = { "Allow this time": "allow", Deny: "deny" };

function form(permissions: readonly string[], tool: string, choices: Choices): ElicitRequestFormParams {
  return {
    mode: "form",
    message: `The tool ${tool} needs the permission ${permissions.join(", ")}.`,
    requestedSchema: {
      type: "object",
      properties: { decision: { type: "string", title: permissions.join(", "), enum: Object.keys(choices) } },
      required: ["decision"],
    },
  };
}

/** A form that is dismissed is a denial, as on Android. */
function answerOf(
  { action, content }: { action: string; content?: Readonly<Record<string, unknown>> | undefined },
  choices: Choices,
): Answer {
  if (action !== "accept") return "deny";
  return Object.entries(choices).find(([choice]) => choice === content?.["decision"])?.[1] ?? "unanswered";
}
