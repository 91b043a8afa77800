# The sidecar image. Arguments behind the image name are the MCP server's command: docker run IMAGE npx -y some-mcp

FROM node:26-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json tsconfig.build.json ./
# No scripts: the image brings its own Node, so the development dependency of that name is not unpacked.
RUN npm ci --ignore-scripts
COPY src src
RUN npm run build

FROM node:26-bookworm-slim AS dependencies
WORKDIR /dependencies
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts

FROM node:26-bookworm-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates tini \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/claw-mcp-stdio
COPY --from=dependencies /dependencies/node_modules node_modules
COPY --from=build /build/dist dist
COPY package.json LICENSE ./
RUN ln -s /opt/claw-mcp-stdio/dist/main.js /usr/local/bin/claw-mcp-stdio
# npx downloads below /tmp: any user, and a read-only root file system with a writable /tmp, can run it.
ENV HOME=/tmp npm_config_cache=/tmp/.npm npm_config_update_notifier=false
WORKDIR /tmp
USER node
EXPOSE 8080
# Reads the same variables as the sidecar, so it follows the configured address.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["claw-mcp-stdio", "-healthcheck"]
# tini reaps what the MCP server leaves behind and hands signals on.
ENTRYPOINT ["tini", "--", "claw-mcp-stdio"]
