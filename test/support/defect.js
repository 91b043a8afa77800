// Puts defects into the sidecar that loads this first: what measures a text throws for certain messages.
const { byteLength } = Buffer;
Buffer.byteLength = (value, encoding) => {
  for (const id of ["in-answer", "in-request"]) {
    const member = id === "in-answer" ? "result" : "method";
    if (typeof value === "string" && value.startsWith(`{"jsonrpc":"2.0","id":"${id}","${member}"`)) throw new TypeError(`a defect ${id}`);
  }
  return byteLength(value, encoding);
};
