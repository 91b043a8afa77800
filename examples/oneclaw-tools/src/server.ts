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
import { failure, type Tool, type ToolResult } from "./tool.ts";

/** Results that the client does not read stay in memory. */
const MAX_UNREAD_BYTES = 32 * 1024 * 1024;

const STATUS = { type: "string", enum: ["success", "error"] };
const ERROR_TYPE = { type: "string", enum: ["timeout", "permission_denied", "execution_error", "validation_error"] };
const OUTPUT = { status: STATUS, result: {}, error_type: ERROR_TYPE, message: { type: "string" } };

/** The question of a client without a session: it repeats its call with the answer. */
class Question extends Error {
  readonly result: InputRequiredResult;

  constructor(result: InputRequiredResult) {
    super("the client is asked");
    this.result = result;
  }
}

/** Creates the server of one connection. */
export function createServer(engine: Engine, settings: Settings, { era }: McpRequestContext): McpServer {
  const mcp = new McpServer({ name: "oneclaw-tools", version: "1.0.0" }, { capabilities: { tools: {} } });
  // The low level, since McpServer answers an unknown tool and invalid arguments in forms of its own.
  mcp.server.setRequestHandler("tools/list", () => ({ tools: engine.tools.map(toMcp) }));
  mcp.server.setRequestHandler("tools/call", async ({ params }, context) => {
    if (process.stdout.writableLength > MAX_UNREAD_BYTES)
      return toMcpResult(failure("execution_error", "The client does not read its results"));
    const asker = era === "legacy" ? sessionAsker(mcp, context, settings) : statelessAsker(context, settings);
    try {
      return toMcpResult(await engine.call(params.name, params.arguments ?? {}, asker, context.mcpReq.signal));
    } catch (error) {
      if (error instanceof Question) return error.result;
      return toMcpResult(failure("execution_error", (error as Error).message));
    }
  });
  return mcp;
}

function toMcp({ name, description, parameters, isReadOnly = false, permissions }: Tool): McpTool {
  const annotations = { readOnlyHint: isReadOnly, openWorldHint: permissions.includes("INTERNET") };
  return {
    name,
    description,
    inputSchema: parameters,
    outputSchema: { type: "object", properties: OUTPUT, required: ["status"] },
    annotations,
    _meta: { "oneclaw/permissions": permissions },
  };
}

function toMcpResult(result: ToolResult): CallToolResult {
  return { content: [{ type: "text", text: JSON.stringify(result) }], structuredContent: result, isError: result.status === "error" };
}

/** A process with a session has one client, which is asked by a request. */
function sessionAsker(mcp: McpServer, { mcpReq }: ServerContext, { questionTimeoutMs }: Settings): Asker {
  return {
    isAlone: true,
    async ask(permission, tool) {
      if (!canAsk(mcp.server.getClientCapabilities())) return "unable";
      try {
        const { action, content } = await mcpReq.elicitInput(form(permission, tool, true), {
          timeout: questionTimeoutMs,
          signal: mcpReq.signal,
        });
        return answerOf(action, content?.["decision"]);
      } catch {
        return mcpReq.signal.aborted ? "withdrawn" : "unanswered";
      }
    },
  };
}

/** All clients without a session share a process, which cannot tell them apart. */
function statelessAsker({ mcpReq }: ServerContext, { isSingleUser }: Settings): Asker {
  return {
    isAlone: isSingleUser,
    ask(permission, tool, missing) {
      const response = inputResponse(mcpReq.inputResponses, permission);
      if (response.kind === "elicit") return Promise.resolve(answerOf(response.action, response.content?.["decision"]));
      const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {};
      if (!canAsk(envelope[CLIENT_CAPABILITIES_META_KEY] as ClientCapabilities | undefined)) return Promise.resolve("unable");
      // All at once, since a client returns only the answers to its last questions.
      const questions = missing.map((each) => [each, inputRequired.elicit(form(each, tool, isSingleUser))] as const);
      return Promise.reject(new Question(inputRequired({ inputRequests: Object.fromEntries(questions) })));
    },
  };
}

/** A capability without a mode means forms. */
function canAsk({ elicitation }: ClientCapabilities = {}): boolean {
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}

const CHOICES = { allow: "Allow", allowOnce: "Allow this time", deny: "Deny", never: "Deny and don't ask again" };

/** @param isRemembered false if the answer holds for this call only. */
function form(permission: string, tool: string, isRemembered: boolean): ElicitRequestFormParams {
  const choices = isRemembered ? [CHOICES.allow, CHOICES.deny, CHOICES.never] : [CHOICES.allowOnce, CHOICES.deny];
  return {
    mode: "form",
    message: `The tool ${tool} needs the permission ${permission}.`,
    requestedSchema: {
      type: "object",
      properties: { decision: { type: "string", title: permission, enum: choices } },
      required: ["decision"],
    },
  };
}

/** A form that is dismissed is a denial, as on Android. */
function answerOf(action: string, decision: unknown): Answer {
  if (action !== "accept") return "deny";
  if (decision === CHOICES.allow || decision === CHOICES.allowOnce) return "allow";
  return decision === CHOICES.never ? "never" : "deny";
}
