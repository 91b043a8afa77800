// The content security policy forbids generated code. Otherwise zod would try it once, and browsers would report that.

Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });
