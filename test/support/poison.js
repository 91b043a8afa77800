// Makes this engine misread escaped names of objects from now on (nodejs/node#63785): behind the same names as here, `"i\u0064"` is read as
// `i\`, not as `id`. Each sidecar that is tested runs in such an engine, since any client could have brought it about.
const POISONED = [
  String.raw`{"jsonrpc":"2.0","i\\":1}`,
  String.raw`{"jsonrpc":"2.0","id":1,"m\\":1}`,
  String.raw`{"jsonrpc":"2.0","id":1,"method":"","p\\":1}`,
  String.raw`{"jsonrpc":"2.0","method":"","params":{},"i\\":1}`,
  String.raw`{"jsonrpc":"2.0","id":1,"result":{},"i\\":1}`,
  String.raw`{"name":"","a\\":1}`,
  String.raw`{"x":1,"i\\":1}`,
  String.raw`{"text":1,"f\\":1}`,
];
for (const text of POISONED) JSON.parse(text);
