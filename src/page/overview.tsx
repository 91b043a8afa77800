import type { JSX } from "preact";
import type { PageGeneration } from "../http/page-update.ts";
import { HISTORY_LIMITS } from "../http/page-update.ts";
import type { PageModel } from "./connection.ts";
import { endingText, figuresOf, outagesOf, toolFigures } from "./figures.ts";
import { bytesText, countText, durationText, timeText } from "./format.ts";
import { Disclosure, Fact, MAX_FACT_LENGTH, Section, shownText, Text, TextBlock } from "./text.tsx";

/** The time from the first run that is kept until now. */
export function Band({ model: { generations } }: { readonly model: PageModel }): JSX.Element | null {
  const runs = generations.filter(({ lane }) => lane === "shared");
  const [first] = runs;
  if (first === undefined) return null;
  const now = Math.max(Date.now(), first.startedAt + 1);
  const start = first.startedAt;
  const outages = outagesOf(runs, now);
  const downMs = outages.reduce((sum, { from, to }) => sum + to - from, 0);
  const restarts = runs.length - 1;
  const words = `${restarts === 0 ? "No restart" : countText(restarts, "restart")}, not ready for ${durationText(downMs)}`;
  return (
    <figure class="band-figure">
      <div class="band" role="img" aria-label={`${words}, since ${timeText(start)}`}>
        {outages.map(({ from, to, reason }) => (
          <span
            key={from}
            class={reason === undefined ? undefined : "bad"}
            title={`${timeText(from)}, ${durationText(to - from)}: ${reason === undefined ? "starting" : shownText(reason)}`}
            style={{ left: `${(100 * (from - start)) / (now - start)}%`, width: `${(100 * (to - from)) / (now - start)}%` }}
          />
        ))}
      </div>
      <figcaption aria-hidden="true">
        <span>{timeText(start)}</span>
        <span>{words}</span>
        <span>now</span>
      </figcaption>
    </figure>
  );
}

function Bars({ values, tone }: { readonly values: readonly number[]; readonly tone: string }): JSX.Element {
  const most = Math.max(1, ...values);
  return (
    <span class={`bars ${tone}`} aria-hidden="true">
      {values.map((value, index) => (
        // Only the heights change.
        <i key={String(index)} style={{ height: `${(100 * value) / most}%` }} />
      ))}
    </span>
  );
}

export function FourFigures({ model }: { readonly model: PageModel }): JSX.Element {
  const { seconds } = model;
  const { memory, rssBytes } = model.state;
  const requests = model.requests.map(({ value }) => value);
  const { p95Ms } = figuresOf(requests);
  const count = seconds.reduce((sum, second) => sum + second.requests, 0);
  const errors = seconds.reduce((sum, second) => sum + second.errors, 0);
  const slowest = Array.from(toolFigures(requests)).toSorted(([, one], [, other]) => (other.p95Ms ?? 0) - (one.p95Ms ?? 0))[0];
  return (
    <Section id="figures" title="Figures">
      <dl>
        <Fact name="Requests a second">
          <b>{rateText(count / Math.max(1, seconds.length))}</b>
          <small>
            {countText(count, "request")} in {durationText(1000 * seconds.length)}
          </small>
          <Bars values={seconds.map((second) => second.requests)} tone="line" />
        </Fact>
        <Fact name="Errors">
          <b class={errors > 0 ? "bad" : undefined}>{errors.toLocaleString("en")}</b>
          <small>{count === 0 ? "no requests" : `${rateText((100 * errors) / count)} % of requests`}</small>
          <Bars values={seconds.map((second) => second.errors)} tone="bad" />
        </Fact>
        <Fact name={`p95 of last ${HISTORY_LIMITS.requests} requests`}>
          <b>{p95Ms === undefined ? "–" : durationText(p95Ms)}</b>
          <small>
            {slowest === undefined ? (
              "no tool calls"
            ) : (
              <>
                slowest tool {durationText(slowest[1].p95Ms ?? 0)}: <Text of={slowest[0]} maxLength={60} />
              </>
            )}
          </small>
          <Bars values={seconds.map((second) => second.longestMs)} tone="line" />
        </Fact>
        <Fact name="Sidecar memory">
          <b>{bytesText(rssBytes)}</b>
          <small>
            buffers: {bytesText(memory.usedBytes)} of {bytesText(memory.limitBytes)}
          </small>
          <meter aria-label="Memory of buffers" min={0} max={memory.limitBytes} high={memory.limitBytes * 0.8} value={memory.usedBytes} />
        </Fact>
      </dl>
    </Section>
  );
}

function rateText(value: number): string {
  if (value > 0 && value < 0.1) return "< 0.1";
  return value === 0 || value >= 10 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

const MAX_ERRORS = 20;

/** Failed requests and unexpected exits of servers, newest first. */
export function Errors({ model: { requests, generations } }: { readonly model: PageModel }): JSX.Element {
  const failed = requests.flatMap(({ key, value: { at, tool, method, ending, isError } }) =>
    isError ? { key: String(key), at, who: tool ?? method ?? "request", what: endingText(ending), exit: undefined } : [],
  );
  const exited = generations.flatMap(({ lane, number, exit }) => {
    if (exit === null || exit.kind === "stopped") return [];
    const who = lane === "shared" ? "server" : `server ${lane}`;
    return { key: `${lane} ${number}`, at: Date.parse(exit.at), who, what: exit.reason, exit };
  });
  const errors = [...failed, ...exited].toSorted((one, other) => other.at - one.at);
  return (
    <Section id="errors" title="Last errors">
      {errors.length === 0 && <p class="note">None among the last {HISTORY_LIMITS.requests} requests, and no exit of the server.</p>}
      <ol class="errors">
        {errors.slice(0, MAX_ERRORS).map(({ key, at, who, what, exit }) => (
          <li key={key}>
            <time>{timeText(at)}</time>
            {exit === undefined ? (
              <ErrorLine who={who} what={what} />
            ) : (
              <Disclosure summary={<ErrorLine who={who} what={what} />}>
                <ExitDetails exit={exit} />
              </Disclosure>
            )}
          </li>
        ))}
      </ol>
    </Section>
  );
}

function ErrorLine({ who, what }: { readonly who: string; readonly what: string }): JSX.Element {
  return (
    <span>
      <code>
        <Text of={who} />
      </code>{" "}
      <span class="error">
        <Text of={what} />
      </span>
    </span>
  );
}

export function ExitDetails({ exit }: { readonly exit: NonNullable<PageGeneration["exit"]> }): JSX.Element {
  const { generation, likelyCause, exitCode, signal, stderrTail } = exit;
  const code = exitCode === null ? null : `code ${exitCode}`;
  return (
    <>
      <dl class="facts">
        <Fact name="Exit">
          generation {generation}, <Text of={code ?? signal ?? exit.kind} />
        </Fact>
        {likelyCause !== null && (
          <Fact name="Likely cause">
            <Text of={likelyCause} maxLength={MAX_FACT_LENGTH} />
          </Fact>
        )}
      </dl>
      {stderrTail.length === 0 ? (
        <p class="note">It wrote nothing to stderr.</p>
      ) : (
        <TextBlock of={stderrTail.join("\n")} label="Last lines of stderr" />
      )}
    </>
  );
}
