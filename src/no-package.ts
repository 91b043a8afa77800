// In `json/` and `protocol/`, the name of each package and of each Node module resolves to this file (`paths` in their tsconfig.json). It does not
// belong to their projects, so the compiler rejects the import.
