// Rejects each connection that leaves the machine: no client may report to its makers.
import { Socket } from "node:net";

const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/;
// oxlint-disable-next-line typescript/unbound-method -- it is called with its receiver
const { connect } = Socket.prototype;

Socket.prototype.connect = function connectOnLoopback(this: Socket, ...args: unknown[]): Socket {
  const [options] = (Array.isArray(args[0]) ? args[0] : args) as unknown[];
  const { host, path } = (typeof options === "object" ? options : {}) as { readonly host?: string; readonly path?: string };
  if (path === undefined && !LOOPBACK.test(host ?? "localhost")) throw new Error(`not on loopback: ${host}`);
  return Reflect.apply(connect, this, args) as Socket;
};
