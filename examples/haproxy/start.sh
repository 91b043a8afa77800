#!/bin/sh
# Three replicas of the echo server behind HAProxy, until Ctrl-C. BIND and PORTS choose other addresses. A replica that ends is started again.
set -eu
cd "${0%/*}/../.."
bind=${BIND:-127.0.0.1:8080}
ports=${PORTS:-8081 8082 8083}
echo "haproxy-example: three replicas behind HAProxy, any of which answers any client, at http://$bind/mcp"
command -v haproxy > /dev/null || { echo 'There is no haproxy. Install it, on Debian with: apt-get install haproxy' >&2; exit 1; }
[ -e dist/main.js ] || npm run --silent build
# `npx node` itself would not pass SIGTERM on.
node=$(npx node -p process.execPath)
logs=$(mktemp -d)
started=
trap 'kill $started 2> /dev/null || true; wait; rm -r "$logs"' EXIT
trap exit INT TERM

export CLAW_MCP_STDIO_PRE_STOP_MS=2000 CLAW_MCP_STDIO_SESSION_KEY="${CLAW_MCP_STDIO_SESSION_KEY:-$(openssl rand -hex 32)}"
replica() {
  trap 'kill $!; wait $!; exit' TERM
  while :; do
    "$node" dist/main.js --addr "127.0.0.1:$1" --keep-trying off -- node examples/echo-server/server.js > "$logs/$1" 2>&1 &
    echo "replica   http://127.0.0.1:$1/mcp    restart it, without a failed call: kill $!"
    wait $! || sleep 1
  done
}
number=0
for port in $ports; do
  replica "$port" &
  started="$started $!"
  number=$((number + 1))
  export "REPLICA_$number=127.0.0.1:$port"
done
BIND=$bind haproxy -f examples/haproxy/haproxy.cfg > "$logs/haproxy" 2>&1 &
haproxy=$!
started="$started $haproxy"

seconds=0
until curl --silent --fail --max-time 1 --output /dev/null "http://$bind/readyz"; do
  seconds=$((seconds + 1))
  if [ $seconds -gt 20 ] || ! kill -0 $haproxy 2> /dev/null; then
    echo 'It does not start:' >&2
    tail -n 2 "$logs"/* >&2
    exit 1
  fi
  sleep 1
done
echo "ready     examples/session.sh http://$bind/mcp"
wait $haproxy
