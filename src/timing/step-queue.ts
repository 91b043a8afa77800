/** A work item that pauses after each step. The call after its end is the last step. */
interface SteppedWork {
  step(): boolean;
}

const waiting: SteppedWork[] = [];

/**
 * Runs work in steps. Each turn of the event loop runs one step of one work item; the items take turns.
 *
 * @param onDone called with the result of the work, in a later turn, as a step of its own.
 * @param onDefect called with an error that the work or `onDone` throws. It must not throw.
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
        // `onDone` may take as long as a step, so it gets its own turn.
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
