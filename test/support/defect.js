// Puts defects into the sidecar that loads this first: the length of certain texts cannot be measured.
const { byteLength } = Buffer;
const DEFECTS = { "in-answer": '{"jsonrpc":"2.0","id":"in-answer","result"', "in-request": '"arguments":{"text":"in-request"}' };
Buffer.byteLength = (value, encoding) => {
  for (const [name, part] of Object.entries(DEFECTS)) {
    if (typeof value === "string" && value.includes(part)) throw new TypeError(`a defect ${name}`);
  }
  return byteLength(value, encoding);
};
