export interface Program {
  readonly commands: readonly string[];
  readonly debianPackage: string;
  readonly tests: string;
}

export const PROGRAMS: Readonly<Record<string, Program>> = {
  prometheus: { commands: ["prometheus", "promtool"], debianPackage: "prometheus", tests: "test/system/prometheus" },
  haproxy: { commands: ["haproxy"], debianPackage: "haproxy", tests: "test/system/replicas" },
  nginx: { commands: ["nginx", "openssl"], debianPackage: "nginx openssl", tests: "test/system/nginx" },
  chromium: { commands: ["chromium"], debianPackage: "chromium", tests: "test/system/page" },
  adb: { commands: ["adb"], debianPackage: "adb", tests: "test/system/adb" },
};
