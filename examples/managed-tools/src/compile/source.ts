import { readFileSync } from "node:fs";
import { relative } from "node:path";
import { type Document, isMap, isNode, isScalar, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";

/** A fault in a file, for its author. */
export interface Problem {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

type Path = readonly PropertyKey[];

/** A YAML or JSON file whose values know their lines. JSON is YAML, so both have one parser. */
export class Source {
  readonly file: string;
  readonly problems: Problem[] = [];
  readonly #document: Document | undefined;
  readonly #lines = new LineCounter();

  constructor(file: string) {
    this.file = relative(process.cwd(), file) || file;
    let text: string;
    try {
      text = readFileSync(file, "utf8");
    } catch (error) {
      this.problems.push({ file: this.file, line: 1, text: `cannot be read: ${(error as Error).message}` });
      return;
    }
    this.#document = parseDocument(text, { lineCounter: this.#lines, merge: true, prettyErrors: false });
    for (const { pos, message } of this.#document.errors) this.#add(pos[0], message);
  }

  /** Returns the content if it has this form. Otherwise each difference becomes a problem. */
  read<Schema extends z.ZodType>(schema: Schema): z.infer<Schema> | undefined {
    if (this.#document === undefined || this.problems.length > 0) return undefined;
    let value: unknown;
    try {
      value = this.#document.toJS();
    } catch (error) {
      // An alias without an anchor, or too many of them.
      this.#add(0, (error as Error).message);
      return undefined;
    }
    const result = schema.safeParse(value);
    if (result.success) return result.data;
    for (const issue of result.error.issues) {
      const { path, message } = innermost(issue);
      this.report(path, `${path.map(String).join(".") || "the file"}: ${message}`);
    }
    return undefined;
  }

  /** Adds a problem with the value at this path, or with the nearest one around it. */
  report(path: Path, text: string): void {
    for (let length = path.length; length > 0; length--) {
      const node = this.#find(path.slice(0, length));
      if (isNode(node) && node.range) return this.#add(node.range[0], text);
    }
    this.#add(0, text);
  }

  /** Returns the name of a member, or the item of a list. The value of a member may begin on another line. */
  #find(path: Path): unknown {
    const parent: unknown = this.#document?.getIn(path.slice(0, -1), true) ?? this.#document?.contents;
    if (!isMap(parent)) return this.#document?.getIn(path, true);
    return parent.items.find(({ key }) => isScalar(key) && key.value === path.at(-1))?.key;
  }

  #add(offset: number, text: string): void {
    this.problems.push({ file: this.file, line: Math.max(1, this.#lines.linePos(offset).line), text });
  }
}

interface Issue {
  readonly path: Path;
  readonly message: string;
  readonly errors?: readonly (readonly Issue[])[];
}

/** Of a value that may have several forms, the fault within the form that it resembles, if there is one. */
function innermost({ path, message, errors = [] }: Issue): Issue {
  const inner = errors.flat().find((each) => each.path.length > 0);
  return inner === undefined ? { path, message } : innermost({ ...inner, path: [...path, ...inner.path] });
}
