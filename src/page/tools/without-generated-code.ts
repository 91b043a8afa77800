// The content security policy allows no generated code. Without this, zod tries once whether it can generate some, and browsers report that.

Object.assign(globalThis, { __zod_globalConfig: { jitless: true } });
