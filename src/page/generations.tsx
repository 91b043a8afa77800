import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { PageGeneration } from "../http/page-update.ts";
import { timeText } from "./format.ts";
import { Fact, Section, Text, TextBlock, TextFact } from "./text.tsx";

/** The processes of the server in each lane, oldest first, and the exit of one of them: of the last one at once while the server is not ready. */
export function Generations({
  generations,
  isReady,
}: {
  readonly generations: readonly PageGeneration[];
  readonly isReady: boolean;
}): JSX.Element {
  /** Empty for none, undefined for the last exit. */
  const [selectedId, setSelectedId] = useState<string>();
  const lanes = [...new Set(generations.map(({ lane }) => lane))];
  const exited = isReady || selectedId !== undefined ? [] : generations.filter(({ exit }) => exit !== null);
  const [lastExited] = exited.toSorted((one, other) => Date.parse(other.exit?.at ?? "") - Date.parse(one.exit?.at ?? ""));
  const selected = generations.find((each) => idOf(each) === selectedId) ?? lastExited;
  return (
    <Section id="generations" title="Generations">
      {generations.length === 0 && <p>No process of the server has started.</p>}
      {lanes.map((lane) => (
        <div class="lane" key={lane}>
          {lanes.length > 1 && (
            <h3>
              <Text of={lane} />
            </h3>
          )}
          <ol class="strip">
            {generations
              .filter((each) => each.lane === lane)
              .map((each) => (
                <li key={each.number}>
                  <GenerationButton
                    generation={each}
                    isSelected={selected !== undefined && idOf(each) === idOf(selected)}
                    onSelect={() => setSelectedId(each === selected ? "" : idOf(each))}
                  />
                </li>
              ))}
          </ol>
        </div>
      ))}
      {selected !== undefined && <GenerationDetails key={idOf(selected)} generation={selected} />}
    </Section>
  );
}

function GenerationButton({
  generation,
  isSelected,
  onSelect,
}: {
  readonly generation: PageGeneration;
  readonly isSelected: boolean;
  readonly onSelect: () => void;
}): JSX.Element {
  const { number, startedAt, readyAt, exit } = generation;
  // The sidecar has stopped the server, for example because its client has gone.
  const isExpected = exit?.kind === "stopped";
  const tone = exit !== null ? (isExpected ? "ended" : "bad") : readyAt === null ? "wait" : "good";
  return (
    <button type="button" class={`generation ${tone}`} aria-expanded={isSelected} onClick={onSelect}>
      <b>{number}</b> {timeText(startedAt)}–{exit === null ? "" : timeText(exit.at)}{" "}
      <span>{exit !== null ? <Text of={exit.kind} /> : readyAt === null ? "starting" : "running"}</span>
    </button>
  );
}

function GenerationDetails({ generation }: { readonly generation: PageGeneration }): JSX.Element {
  const { lane, number, startedAt, readyAt, exit } = generation;
  return (
    <div class="details" role="group" aria-label={`Generation ${number}`}>
      <p>
        Generation {number} of lane <Text of={lane} />: started {timeText(startedAt)},{" "}
        {readyAt === null ? "never ready" : `ready ${timeText(readyAt)}`}
        {exit === null ? ", running." : `, exited ${timeText(exit.at)}.`}
      </p>
      {exit !== null && <ExitDetails exit={exit} />}
    </div>
  );
}

function ExitDetails({ exit }: { readonly exit: NonNullable<PageGeneration["exit"]> }): JSX.Element {
  const { kind, reason, likelyCause, exitCode, signal, stderrTail } = exit;
  return (
    <>
      <dl class="facts">
        <Fact name="Exit">
          <Text of={kind} />
          {exitCode !== null && `, exit code ${exitCode}`}
          {signal !== null && `, ${signal}`}
        </Fact>
        <TextFact name="Reason" of={reason} />
        <TextFact name="Likely cause" of={likelyCause} />
      </dl>
      {stderrTail.length === 0 ? (
        <p class="note">It wrote nothing to stderr.</p>
      ) : (
        <details open>
          <summary>Last lines of stderr</summary>
          <TextBlock of={stderrTail.join("\n")} label="Last lines of stderr" />
        </details>
      )}
    </>
  );
}

function idOf({ lane, number }: PageGeneration): string {
  return `${number} ${lane}`;
}
