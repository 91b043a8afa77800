# The sidecar image. Arguments behind the image name are the MCP server's command: docker run IMAGE npx -y some-mcp
#   docker build -t claw-mcp-stdio .                       Node, npx, git and python3 for the server
#   docker build -t claw-mcp-stdio:uv --target uv .        uv and uvx besides
# Needs BuildKit, as every Docker since 23 has it. What is in it and why: docs/decisions/0016-image.md

# A release pins both by digest: --build-arg NODE_IMAGE=node@sha256:…
ARG NODE_IMAGE=node:26-bookworm-slim
ARG UV_IMAGE=astral/uv:0.12.23

# The bundle is the same for every processor: it is never built under emulation.
FROM --platform=$BUILDPLATFORM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
# No scripts: the image brings its own Node, so the development dependency of that name is not unpacked.
RUN npm ci --ignore-scripts
COPY build build
COPY src src
RUN npm run build

FROM ${NODE_IMAGE} AS sidecar
# git: packages that npx and uvx fetch from a repository. python3: servers in Python, and packages that npm compiles.
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates git python3 tini \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/claw-mcp-stdio
COPY package.json LICENSE ./
COPY --from=build /build/dist dist
RUN ln -s /opt/claw-mcp-stdio/dist/main.js /usr/local/bin/claw-mcp-stdio
# npx downloads below /tmp: any user, and a read-only root file system with a writable /tmp, can run it.
# Python would keep what it prints to a pipe in a buffer, and a server that does not flush it would never be ready.
ENV HOME=/tmp npm_config_cache=/tmp/.npm npm_config_update_notifier=false PYTHONUNBUFFERED=1
# A container has interfaces of its own. ADDR and PORT of a pod still decide.
ENV CLAW_MCP_STDIO_HOST=*
WORKDIR /tmp
# The user node, by number: Kubernetes cannot tell from a name that it is not root (runAsNonRoot).
USER 1000:1000
EXPOSE 8080
# Asks at the address where the sidecar of the container listens. A release adds --start-interval, which builders know since Docker 25.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["claw-mcp-stdio", "-healthcheck"]
# tini reaps what the MCP server leaves behind and hands signals on.
ENTRYPOINT ["tini", "--", "claw-mcp-stdio"]
ARG VERSION=dev
# What only a release knows it adds with --label: source, revision, created.
LABEL org.opencontainers.image.title="claw-mcp-stdio" \
  org.opencontainers.image.description="Puts any stdio MCP server behind Streamable HTTP, supervises it, and leaves no request unanswered." \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.authors="claw-mcp-stdio contributors" \
  org.opencontainers.image.version="${VERSION}"

# Only --target uv fetches this.
FROM ${UV_IMAGE} AS uv-binaries

FROM sidecar AS uv
# No settings: HOME is /tmp, so its cache is there, and so is a newer Python than Debian's where a package asks for one.
COPY --from=uv-binaries /uv /uvx /usr/local/bin/

# Last, so that it is built where no target is named.
FROM sidecar
