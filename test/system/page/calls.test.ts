import { describe, expect, it } from "vitest";
import { CONFORMANCE_SERVER } from "../../support/conformance.ts";
import { disposeAfterAll } from "../../support/dispose-after-all.ts";
import { EVERYTHING } from "../../support/real-servers.ts";
import { Sidecar } from "../../support/sidecar.ts";
import { BrowserPage } from "./browser.ts";

describe("calls of tools in a browser", async () => {
  const everything = disposeAfterAll(await Sidecar.start({ command: EVERYTHING }));
  const conformance = disposeAfterAll(await Sidecar.start({ command: CONFORMANCE_SERVER }));

  it("a tool is called with two clicks, because required values are filled in with samples", async () => {
    await using browser = await BrowserPage.open(everything);
    const sum = await browser.openTool("get-sum");
    await browser.call(sum);
    await browser.waitForText("The sum of 1 and 1 is 2.", sum);
    const echo = await browser.openTool("echo");
    await browser.call(echo);
    await browser.waitForText("Echo: example", echo);
  });

  it("a tool is called with the values of its form if its schema allows them, and the result is shown", async () => {
    await using browser = await BrowserPage.open(everything);
    const sum = await browser.openTool("get-sum");
    await sum.getByLabel(/^a\b/).fill("");
    await browser.call(sum);
    // The browser says what is wrong, and moves the focus there.
    await sum.locator("input:focus:invalid").waitFor();
    expect(await sum.getByRole("group", { name: "Result" }).count()).toBe(0);
    await sum.getByLabel(/^a\b/).fill("19");
    await sum.getByLabel(/^b\b/).fill("23");
    await browser.call(sum);
    await browser.waitForText(/The sum of 19 and 23 is 42/, sum);
    // Numbers are sent as they are typed.
    await sum.getByLabel(/^a\b/).fill("");
    await sum.getByLabel(/^a\b/).pressSequentially("-0.05");
    await sum.getByLabel(/^b\b/).fill("1e3");
    await browser.call(sum);
    await browser.waitForText("The sum of -0.05 and 1000 is 999.95.", sum);
    const weather = await browser.openTool("get-structured-content");
    await weather.getByRole("combobox").selectOption({ label: "Chicago" });
    await browser.call(weather);
    await browser.waitForText(/"temperature": 36/, weather.getByRole("group", { name: "Structured content" }));
  });

  it("a tool has its title, description, annotations, definition, and the command of the Inspector", async () => {
    await using browser = await BrowserPage.open(everything);
    const tool = await browser.openTool("get-sum");
    await tool.getByText("Get Sum Tool").waitFor();
    await tool.locator(".description").getByText("Returns the sum of two numbers").waitFor();
    expect(await tool.getByRole("list", { name: "Annotations" }).getByRole("listitem").allTextContents()).toEqual([
      "read-only",
      "closed world",
    ]);
    await tool.getByText("Definition").click();
    await browser.waitForText('"required": [', tool.getByRole("group", { name: "Definition" }));
    await browser.page.getByText("Resources, prompts and everything else").click();
    const command = `npx -y @modelcontextprotocol/inspector --cli ${everything.url} --transport http --method resources/list`;
    await browser.page.getByText(command).waitFor();
  });

  it("a tool whose schema has no fields takes JSON, and an error of the tool is marked", async () => {
    await using browser = await BrowserPage.open(conformance);
    const tool = await browser.openTool("json_schema_2020_12_tool");
    await tool.getByLabel("Arguments as JSON").fill("[1]");
    await browser.call(tool);
    await browser.waitForProblem("The arguments must be a JSON object.");
    await tool.getByLabel("Arguments as JSON").fill('{"name":"Ada","email":"a@b"}');
    await browser.call(tool);
    await browser.waitForText('{"name":"Ada","email":"a@b"}', tool.getByRole("group", { name: "Result" }));
    const failing = await browser.openTool("test_error_handling");
    await browser.call(failing);
    await browser.waitForText(/The tool reports an error/, failing);
    await browser.waitForText("this tool always fails", failing);
  });

  it("progress moves a bar, and a call can be cancelled", async () => {
    await using browser = await BrowserPage.open(conformance);
    const client = await conformance.client();
    const tool = await browser.openTool("test_wait");
    await tool.getByLabel(/^name/).fill("first");
    await browser.call(tool);
    await client.callTool("test_tell", { name: "first", progress: 50 });
    await browser.waitForText(/^50/, tool);
    await tool.getByRole("progressbar", { name: "Progress of the call" }).waitFor();
    await client.callTool("test_tell", { name: "first", answer: "the end" });
    await browser.waitForText("the end", tool);
    await tool.getByLabel(/^name/).fill("second");
    await browser.call(tool);
    await client.callTool("test_tell", { name: "second", progress: 1 });
    await tool.getByRole("button", { name: "Cancel" }).click();
    await browser.waitForText("The call is cancelled.", tool);
    expect(await client.toolText("test_cancellation", { name: "second" })).not.toBe("");
  });

  it("a tool asks a question during its call, if it may, and gets the answer of a form, or a refusal", async () => {
    await using browser = await BrowserPage.open(conformance);
    const tool = await browser.openTool("test_elicitation");
    await tool.getByLabel(/^message/).fill("Who are you?");
    const mayAsk = tool.getByLabel("Let the tool ask questions");
    expect(await mayAsk.isChecked()).toBe(false);
    await browser.call(tool);
    await browser.waitForText(/elicitation/i, tool.getByRole("group"));
    await mayAsk.check();
    await browser.call(tool);
    const question = browser.page.getByRole("group", { name: "The tool asks" });
    await browser.waitForText("Who are you?", question);
    await browser.page.waitForFunction("document.activeElement?.id === 'question-title'");
    expect(await browser.axeViolations()).toEqual([]);
    await question.getByLabel(/^username/).fill("Ada");
    await question.getByLabel(/^email/).fill("ada@example.org");
    await question.getByRole("button", { name: "Send answer" }).click();
    await browser.waitForText(/The user said: accept .*"username":"Ada"/, tool);
    await browser.call(tool);
    await question.getByRole("button", { name: "Decline" }).click();
    await browser.waitForText(/The user said: decline/, tool);
  });

  it("a sidecar that serves sessions only is called too", async () => {
    await using sidecar = await Sidecar.start({ flags: ["--modern", "off"] });
    await using browser = await BrowserPage.open(sidecar);
    const tool = await browser.openTool("echo");
    await tool.getByLabel("Edit as JSON").check();
    await tool.getByLabel("Arguments as JSON").fill("no JSON");
    await tool.getByText("Edit as JSON").click();
    await browser.waitForProblem("Not valid JSON");
    expect(await tool.getByLabel("Edit as JSON").isChecked()).toBe(true);
    await tool.getByLabel("Arguments as JSON").fill('{"text":"in a session"}');
    await browser.call(tool);
    await browser.waitForText("in a session", tool.getByRole("group", { name: "Result" }));
  });
});
