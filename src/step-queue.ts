/** A piece of work that pauses after each step, and what follows its end. */
interface SteppedWork {
  step(): boolean;
}

const waiting: SteppedWork[] = [];

/**
 * Does work step by step, one step of all such work in each turn of the event loop: however much there is at once, a turn takes no longer
 * than one step. The pieces of work take turns.
 *
 * @param onDone is given what the work returns, in a later turn.
 * @param onDefect is given what the work, or `onDone`, throws. It must not throw.
 */
export function runInSteps<Result>(
  work: Generator<undefined, Result>,
  onDone: (result: Result) => void,
  onDefect: (error: unknown) => void,
): void {
  waiting.push({
    step() {
      try {
        const { done, value } = work.next();
        if (done === true) onDone(value);
        return done === true;
      } catch (error) {
        onDefect(error);
        return true;
      }
    },
  });
  if (waiting.length === 1) setImmediate(runStep);
}

function runStep(): void {
  const work = waiting[0];
  const isDone = work?.step() !== false;
  waiting.shift();
  if (work !== undefined && !isDone) waiting.push(work);
  if (waiting.length > 0) setImmediate(runStep);
}
