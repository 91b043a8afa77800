/** A piece of work that pauses after each step, and what follows its end. */
interface SteppedWork {
  step(): boolean;
}

const waiting: SteppedWork[] = [];

/**
 * Runs work in steps, one step a turn of the event loop for all work together. Work items take turns. The end of a work is a step as well.
 *
 * @param onDone is given what the work returns, in a later turn.
 * @param onDefect is given what the work, or `onDone`, throws. It must not throw.
 */
export function runInSteps<Result>(
  work: Generator<undefined, Result>,
  onDone: (result: Result) => void,
  onDefect: (error: unknown) => void,
): void {
  let finish: (() => void) | undefined;
  waiting.push({
    step() {
      try {
        if (finish !== undefined) {
          finish();
          return true;
        }
        const { done, value } = work.next();
        // In a turn of its own: what follows may take as long as a step.
        if (done === true) finish = () => onDone(value);
        return false;
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
