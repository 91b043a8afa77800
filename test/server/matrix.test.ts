import { afterAll, describe, expect, it } from "vitest";
import { nameOf } from "../support/matrix/cells.ts";
import { runCell } from "../support/matrix/run-cell.ts";
import { CELLS, MatrixTable } from "../support/matrix/table.ts";

const table = new MatrixTable();

/** The contract between clients and servers: what both get in each combination. `npm run matrix` writes matrix.txt anew. */
describe.concurrent("the matrix", () => {
  it.each(CELLS.map((cell) => [nameOf(cell), cell] as const))("%s", async (name, cell) => {
    const observed = await runCell(cell);
    expect(observed).toBe(table.expected(name, observed) ?? "not in matrix.txt, which `npm run matrix` writes");
  });
});

describe("the table of the matrix", () => {
  it("is as `npm run matrix` writes it", () => {
    expect(table.text).toBe(table.expectedText);
  });
});

afterAll(() => table.save());
