import { readBinaryXml } from "./binary-xml.ts";

export { MAX_DOCUMENT_BYTES as MAX_MANIFEST_BYTES } from "./binary-xml.ts";

export const PROVIDER_ACTION = "com.clawseed.action.TOOL_PROVIDER";
const AUTHORITY = "com.clawseed.tools.authority";
const VERSION = "com.clawseed.tools.version";
/** Resource ids of attributes (android.R.attr). */
const ATTRIBUTE = { label: 0x01010001, name: 0x01010003, authorities: 0x01010018, value: 0x01010024 } as const;
/** Other characters would change the meaning of a URI. */
const NAME = /^[\w.-]{1,200}$/;

/** A service that declares a tool provider (CETP §2.2). */
export interface Declaration {
  /** Its full class name. */
  readonly service: string;
  readonly authority: string;
  /** As declared; undefined if it is not. */
  readonly version: string | undefined;
}

export interface Manifest {
  readonly declarations: readonly Declaration[];
  /** The name of the app; undefined if it is a resource, which no command of the device shows. */
  readonly label: string | undefined;
  /** Declarations whose authority is none of the app's own, or no name. */
  readonly rejected: readonly Declaration[];
}

/** Reads what CETP needs of a compiled manifest. @throws {RangeError} if it is damaged. */
export function readManifest(xml: Buffer): Manifest {
  const elements = readBinaryXml(xml);
  const packageName = elements[0]?.attributes.get("package") ?? "";
  // Android ignores further elements of this name.
  const application = elements.findIndex(({ path, parent }) => path === "manifest/application" && parent === 0);
  // Two packages cannot have the same authority: Android does not install the second.
  const providers = elements.filter(({ path, parent }) => parent === application && path.endsWith("/provider"));
  // Many may have the same long text.
  const authorities = new Set(providers.map(({ attributes }) => attributes.get(ATTRIBUTE.authorities) ?? ""));
  const own = new Set([...authorities].flatMap((each) => each.split(";")));
  const children = Map.groupBy(elements, ({ parent }) => parent);
  const declared = elements.flatMap((element, index): Declaration[] => {
    if (element.parent !== application || !element.path.endsWith("/service")) return [];
    const inside = children.get(index) ?? [];
    const data = inside.filter(({ path }) => path.endsWith("/meta-data"));
    const metaData = new Map(data.map((each) => [each.attributes.get(ATTRIBUTE.name), each.attributes.get(ATTRIBUTE.value)]));
    const authority = metaData.get(AUTHORITY);
    const service = fullClassName(packageName, element.attributes.get(ATTRIBUTE.name) ?? "");
    return authority === undefined ? [] : [{ service, authority, version: metaData.get(VERSION) }];
  });
  const isOwn = ({ authority }: Declaration): boolean => own.has(authority) && NAME.test(authority);
  return {
    declarations: declared.filter(isOwn),
    rejected: declared.filter((each) => !isOwn(each)),
    label: elements[application]?.attributes.get(ATTRIBUTE.label),
  };
}

/** Names of classes may be relative to the package. */
export function fullClassName(packageName: string, name: string): string {
  return name.startsWith(".") ? packageName + name : name.includes(".") ? name : `${packageName}.${name}`;
}
