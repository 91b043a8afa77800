import type { ServerResponse } from "node:http";
import type { SidecarError, SidecarErrorCode } from "../../errors.ts";
import type { RejectedRequest, RejectedSender } from "../../observability/request-observer.ts";
import type { Identify } from "../route.ts";

interface Rejection {
  readonly code: SidecarErrorCode;
  readonly reason: string | undefined;
  /** A closed socket has none. */
  readonly address: string | undefined;
}

/** Rejections until their responses close. They are noted here because the functions that reject know no observer. */
const REJECTIONS = new WeakMap<ServerResponse, Rejection>();

/** Notes the error of a response to a request without an exchange. @param reason undefined if the error may quote the body or the URL. */
export function noteRejection(response: ServerResponse, { code }: SidecarError, reason?: string): void {
  REJECTIONS.set(response, { code, reason, address: response.req.socket.remoteAddress });
}

/** Returns the rejection of a response that is closed; undefined if its request was not rejected. */
export function rejectionOf(response: ServerResponse, identify: Identify | undefined): RejectedRequest | undefined {
  const rejection = REJECTIONS.get(response);
  if (rejection === undefined) return undefined;
  const { code, reason, address } = rejection;
  const { req, statusCode: httpStatus } = response;
  const { headers } = req;
  return { code, httpStatus, reason, sender };

  function sender(): RejectedSender {
    const { authorization, "mcp-session-id": sessionId, "content-length": length } = headers;
    return {
      principal: identify?.(authorization)?.name ?? address ?? "unknown",
      sessionId: sessionId?.toString(),
      requestBytes: length === undefined ? undefined : Number(length),
    };
  }
}
