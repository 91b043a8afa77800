#!/bin/sh
# One tool call without a session (MCP 2026-07-28), with curl alone. The response is printed.
#
#   stateless.sh URL [TOOL [ARGUMENTS]]      stateless.sh http://localhost:8080/mcp echo '{"text":"hello"}'
#
# The token, if one is needed, is that of CLAW_MCP_STDIO_AUTH_TOKEN. Needs curl 7.55 or later. Exits with 1 if the response is an
# error, or the result of a tool that has failed.
set -eu

url=${1:?usage: stateless.sh URL [TOOL [ARGUMENTS]]}
tool=${2:-add}
arguments=${3:-'{"a":2,"b":3}'}

# Given to curl on its stdin: arguments show in the process list, and one of these is the token.
headers() {
  # A client that accepts JSON alone gets plain JSON, never an event stream that would have to be taken apart.
  printf '%s\n' 'Content-Type: application/json' 'Accept: application/json'
  # These repeat what the body has, so that proxies need not read it.
  printf '%s\n' 'MCP-Protocol-Version: 2026-07-28' 'Mcp-Method: tools/call' "Mcp-Name: $tool"
  if [ -n "${CLAW_MCP_STDIO_AUTH_TOKEN:-}" ]; then printf 'Authorization: Bearer %s\n' "$CLAW_MCP_STDIO_AUTH_TOKEN"; fi
}

# The status of the response is added as its last line.
response=$(headers | curl --silent --show-error --header @- --write-out '\n%{http_code}' "$url" --data '{"jsonrpc":"2.0","id":1,"method":"tools/call",
  "params":{"name":"'"$tool"'","arguments":'"$arguments"',"_meta":{
    "io.modelcontextprotocol/protocolVersion":"2026-07-28",
    "io.modelcontextprotocol/clientCapabilities":{},
    "io.modelcontextprotocol/clientInfo":{"name":"stateless.sh","version":"1"}}}}')
status=$(printf '%s\n' "$response" | sed -n '$p')
body=$(printf '%s\n' "$response" | sed '$d')
case $status:$body in
  # A JSON-RPC error may come with HTTP 200.
  2*:'{"jsonrpc":"2.0","id":1,"error":'*) ;;
  2*)
    printf '%s\n' "$body"
    case $body in *'"isError":true'*) exit 1 ;; esac
    exit
    ;;
esac
printf 'stateless.sh: HTTP %s\n%s\n' "$status" "$body" >&2
exit 1
