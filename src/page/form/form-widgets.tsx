import { getDefaultRegistry } from "@rjsf/core";
import type { RegistryWidgetsType, WidgetProps } from "@rjsf/utils";
import type { JSX } from "preact";
import { cut, visibleLine } from "../text/visible.ts";

const MAX_OPTION_LENGTH = 200;

const { SelectWidget } = getDefaultRegistry().widgets;

/** The widgets that differ from the library's. */
export const formWidgets: RegistryWidgetsType = {
  SelectWidget: Select,
};

/** A select whose options show invisible characters. */
function Select({ options, ...props }: WidgetProps): JSX.Element {
  const enumOptions = options.enumOptions?.map((option) => ({ ...option, label: visibleLine(cut(option.label, MAX_OPTION_LENGTH)) }));
  const Library = SelectWidget as (props: WidgetProps) => JSX.Element;
  const select = <Library {...props} options={{ ...options, ...(enumOptions && { enumOptions }) }} />;
  // The library gives no label to the choice between the variants of `anyOf` and `oneOf`.
  return /__(?:any|one)of_select$/.test(props.id) ? <label>Variant {select}</label> : select;
}
