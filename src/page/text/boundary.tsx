import { Component, type ComponentChildren } from "preact";

interface Props {
  readonly children: ComponentChildren;
}

/** Keeps an error in a part of the page from ending the others. */
export class Boundary extends Component<Props, { readonly hasFailed: boolean }> {
  override state = { hasFailed: false };

  static override getDerivedStateFromError(): { readonly hasFailed: boolean } {
    return { hasFailed: true };
  }

  override render(): ComponentChildren {
    return this.state.hasFailed ? <p class="error">This part cannot be shown.</p> : this.props.children;
  }
}
