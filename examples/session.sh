#!/bin/sh
# One MCP session with curl alone, from initialize to the result of a tool, which is printed.
#
#   session.sh URL [TOOL [ARGUMENTS]]      session.sh http://localhost:8080/mcp echo '{"text":"hello"}'
#
# The token, if one is needed, is that of CLAW_MCP_STDIO_AUTH_TOKEN. Needs curl 7.55 or later. Exits with 1 if the response is an
# error, or the result of a tool that has failed. Without TOOL, it calls the tool `add` of examples/echo-server.
set -eu

if [ $# -eq 0 ]; then
  echo 'usage: session.sh URL [TOOL [ARGUMENTS]]' >&2
  exit 2
fi
url=$1
tool=${2:-add}
arguments=${3:-'{"a":2,"b":3}'}
session=

# Given to curl on its stdin: arguments show in the process list, and one of these is the token.
headers() {
  # A client that accepts JSON alone gets plain JSON, never an event stream that would have to be taken apart.
  printf '%s\n' 'Content-Type: application/json' 'Accept: application/json'
  if [ -n "${CLAW_MCP_STDIO_AUTH_TOKEN:-}" ]; then printf 'Authorization: Bearer %s\n' "$CLAW_MCP_STDIO_AUTH_TOKEN"; fi
  if [ -n "$session" ]; then printf '%s\n' "Mcp-Session-Id: $session" 'MCP-Protocol-Version: 2025-11-25'; fi
}

# Sends a request. Sets `head` and `body` to those of the response. Prints a response that is an error to stderr.
request() {
  response=$(headers | curl --silent --show-error --dump-header - --header @- "$@" "$url") || return
  head=$(printf '%s\n' "$response" | tr -d '\r' | sed '/^$/q')
  body=$(printf '%s\n' "$response" | tr -d '\r' | sed '1,/^$/d')
  status=$(printf '%s\n' "$head" | sed -n '1s/^HTTP[^ ]* \([0-9]*\).*/\1/p')
  case $status:$body in
    # A JSON-RPC error may come with HTTP 200.
    2*:'{"jsonrpc":"2.0","id":'[0-9]',"error":'*) ;;
    2*) return ;;
  esac
  printf 'session.sh: HTTP %s\n%s\n' "$status" "$body" >&2
  return 1
}

request --data '{"jsonrpc":"2.0","id":1,"method":"initialize",
  "params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"session.sh","version":"1"}}}'
session=$(printf '%s\n' "$head" | sed -n 's/^[Mm][Cc][Pp]-[Ss][Ee][Ss][Ss][Ii][Oo][Nn]-[Ii][Dd]: *//p')
trap 'request --request DELETE' EXIT

request --data '{"jsonrpc":"2.0","method":"notifications/initialized"}'

request --data '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"'"$tool"'","arguments":'"$arguments"'}}'
printf '%s\n' "$body"
case $body in *'"isError":true'*) exit 1 ;; esac
