/** A style sheet, which esbuild adds to the one of the page. */
declare module "*.css";
