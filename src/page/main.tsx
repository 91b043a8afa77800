import "uplot/dist/uPlot.min.css";
import "./page.css";
import { render } from "preact";
import { App } from "./app.tsx";

const root = document.querySelector("#page");
if (root !== null) {
  root.replaceChildren();
  render(<App />, root);
}
