import { join } from "node:path";
import axe from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Locator, type Page } from "playwright-core";
import { afterAll } from "vitest";
import { OwnedResources } from "../../support/owned-resources.ts";
import type { Sidecar } from "../../support/sidecar.ts";

/** `npm run docs:screenshots` writes those of the documents. */
const SCREENSHOTS = process.env["SCREENSHOTS"];
/** Only a hang reaches it. */
const TIMEOUT_MS = 120_000;

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly help: string; readonly nodes: readonly { readonly html: string }[] }[];
}

let browser: Promise<Browser> | undefined;
// Each test has a context of its own, which shares nothing with the others.
afterAll(async () => (await browser)?.close());

/** The page of a sidecar in a real browser. Use with `await using`: it must have caused no error and no request to another origin. */
export class BrowserPage implements AsyncDisposable {
  readonly page: Page;
  /** Errors of scripts, lines of the console, and violations of the content security policy. */
  readonly problems: string[] = [];
  /** The addresses of all requests. */
  readonly requests: string[] = [];
  readonly #fileSizes: Promise<number>[] = [];
  readonly #owned: OwnedResources;

  private constructor(page: Page, owned: OwnedResources) {
    [this.page, this.#owned] = [page, owned];
    page.setDefaultTimeout(TIMEOUT_MS);
    page.on("pageerror", (error) => this.problems.push(String(error)));
    page.on("console", (message) => {
      // The browser itself logs each response with an error status.
      if (!message.text().startsWith("Failed to load resource")) this.problems.push(`${message.type()}: ${message.text()}`);
    });
    page.on("request", (request) => this.requests.push(request.url()));
    page.on("requestfinished", (request) => {
      if (!/\/page\/[\w-]+\.(?:js|css)$/.test(request.url())) return;
      this.#fileSizes.push(request.sizes().then(({ responseBodySize }) => responseBodySize));
    });
  }

  /** Starts a browser without a page of the sidecar. */
  static async start(options: BrowserContextOptions = {}): Promise<BrowserPage> {
    await using owned = new OwnedResources();
    // Tests in a container run as root, for whom Chromium has no sandbox.
    browser ??= chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
    const context = await (await browser).newContext({ viewport: { width: 1280, height: 800 }, ...options });
    owned.use({ [Symbol.asyncDispose]: () => context.close() });
    return new BrowserPage(await context.newPage(), owned.move());
  }

  /** Opens the page of a sidecar. */
  static async open({ origin }: Pick<Sidecar, "origin">, options: BrowserContextOptions = {}): Promise<BrowserPage> {
    const opened = await BrowserPage.start(options);
    await opened.page.goto(`${origin}/`);
    return opened;
  }

  /** Returns the bytes of the scripts and styles so far, as they were sent. */
  async fileBytes(): Promise<number> {
    return (await Promise.all(this.#fileSizes)).reduce((sum, size) => sum + size, 0);
  }

  /** The state of the server, as the page announces it. */
  get state(): Locator {
    return this.page.locator("#state");
  }

  tool(name: string): Locator {
    return this.page.getByRole("article", { name, exact: true });
  }

  /** Opens the panel of a tool. */
  async openTool(name: string): Promise<Locator> {
    const tool = this.tool(name);
    await tool.locator("summary").first().click();
    await tool.getByRole("button", { name: "Call", exact: true }).waitFor();
    return tool;
  }

  /** Calls a tool with arguments as JSON. @returns the tool. */
  async callWithJson(name: string, args: string): Promise<Locator> {
    const tool = await this.openTool(name);
    await tool.getByLabel("Edit as JSON").check();
    await tool.getByLabel("Arguments as JSON").fill(args);
    await this.call(tool);
    return tool;
  }

  async call(tool: Locator): Promise<void> {
    await tool.getByRole("button", { name: "Call", exact: true }).click();
  }

  /** Waits until a region of the page has a text. */
  async waitForText(text: string | RegExp, within: Page | Locator = this.page): Promise<void> {
    await within.getByText(text).first().waitFor();
  }

  /** Waits until the browser says what is wrong with a field of a form. */
  async waitForProblem(text: string): Promise<void> {
    await this.page.waitForFunction(`document.activeElement?.validationMessage?.includes(${JSON.stringify(text)})`);
  }

  /** Returns what axe objects to. */
  async axeViolations(): Promise<string[]> {
    await this.page.evaluate(axe.source);
    const { violations } = await this.page.evaluate<AxeResult>("axe.run(document, { resultTypes: ['violations'] })");
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html.slice(0, 200)).join(" | ")}`);
  }

  /** Makes a screenshot. @param name that of its file in the folder SCREENSHOTS, if that is set; undefined if no document has it. */
  async screenshot(name?: string): Promise<Buffer> {
    if (SCREENSHOTS === undefined || name === undefined) return this.page.screenshot();
    return this.page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
  }

  /** The width that the content needs beyond the window. */
  async overflow(): Promise<number> {
    return this.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const origin = this.page.url() === "about:blank" ? undefined : new URL(this.page.url()).origin;
    await this.#owned[Symbol.asyncDispose]();
    const foreign = this.requests.filter((url) => /^(?:https?|wss?):/.test(url) && new URL(url).origin !== origin);
    const found = [...this.problems, ...foreign.map((url) => `request to another origin: ${url}`)];
    if (found.length > 0) throw new Error(`the page has caused:\n${found.join("\n")}`);
  }
}
