import { lookup, type LookupAddress } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";
import { buildConnector } from "undici";

/**
 * Returns a connector to public addresses. The address is checked after the name is resolved and used as it is, so a name that resolves
 * to another address the next time is no way round. Each redirect is checked too.
 */
export function publicConnector(): buildConnector.connector {
  const connect = buildConnector({ lookup: lookupPublic });
  // An address as a host is not looked up.
  return (options, callback) => {
    const host = options.hostname.replace(/^\[|\]$/g, "");
    return isIP(host) === 0 || isPublic(host) ? connect(options, callback) : callback(denied(host), null);
  };
}

const lookupPublic: LookupFunction = (host, options, callback) => {
  lookup(host, { ...options, all: true }, (error, addresses: LookupAddress[]) => {
    const isDenied = error === null && !addresses.every(({ address }) => isPublic(address));
    callback(isDenied ? denied(host) : error, addresses);
  });
};

/** Addresses that embed one of IPv4, such as those of NAT64, are not public. Those of IPv6 are public in 2000::/3 only. */
function isPublic(address: string): boolean {
  const parsed = ipaddr.process(address);
  return parsed.range() === "unicast" && (parsed instanceof ipaddr.IPv4 || parsed.match(ipaddr.IPv6.parse("2000::"), 3));
}

function denied(host: string): Error {
  return new Error(`${host} is not a public address, and the setting ONECLAW_PRIVATE_ADDRESSES denies it`);
}
