// The ends of runs in the ledger whose transaction was rolled back.
import { DatabaseError } from 'pg';
import { codeOf, Discard, messageOf, Retry, Stopped } from './errors.js';
import type { AnyRun } from './run.js';
import { isBroken, isConflict, isLeaseLost, type Session } from './session.js';
import type { Outcome, State } from './state.js';
import * as statements from './statements.js';
import { repeated } from './transaction.js';

const INTERRUPTED = '57014';

/** The words and the verdict on one run. */
interface Said {
  code: string;
  message: string;
  retry?: number | Date | undefined;
  isForGood: boolean;
}

/** Of runs that have failed, or were told to stop: what they are to the ledger from now on. */
export async function report(state: State, session: Session, group: AnyRun[], error: unknown): Promise<void> {
  // Where another of its batch was to stop, whatever their common statement raised, or the worker was before it began.
  const isGivenBack = group.some((run) => run.stopReason !== undefined) || (state.isStopping && error instanceof Stopped);
  for (const run of group) {
    if (run.stopReason === 'lost') await state.end(run, 'LOST');
    else if (run.stopReason === 'shutdown' || (run.stopReason === undefined && isGivenBack)) await givenBack(state, session, run);
    else await state.end(run, await failed(state, session, run, error), error);
  }
}

/** The run is as before its claim. */
export async function givenBack(state: State, session: Session, run: AnyRun): Promise<void> {
  try {
    await repeated(() => session.own(statements.snooze(run, 0, session.clock)), () => run.stopReason === 'lost');
  } catch (error) {
    if (!isLeaseLost(error)) throw error;
    await state.end(run, 'LOST');
  }
}

function saidOf(run: AnyRun, error: unknown): Said {
  if (run.stopReason !== undefined) return { code: 'cancelled', message: run.stopReason, isForGood: false };
  try {
    return { code: codeOf(error), message: messageOf(error), retry: error instanceof Retry ? error.after : undefined, isForGood: error instanceof Discard };
  } catch {
    return UNWRITABLE;
  }
}

const UNWRITABLE: Said = { code: 'handler_error', message: 'its error cannot be written', isForGood: false };

async function failed(state: State, session: Session, run: AnyRun, error: unknown): Promise<Outcome> {
  let said = saidOf(run, error);
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await repeated(() => recorded(state, session, run, said, error), () => run.stopReason === 'lost');
    } catch (refused) {
      if (isLeaseLost(refused)) return 'LOST';
      if (!(refused instanceof DatabaseError) || isBroken(refused) || attempt === 3) throw refused;
      if (refused.code !== INTERRUPTED) said = UNWRITABLE; // (the other is a cancel that came late)
    }
  }
}

async function recorded(state: State, session: Session, run: AnyRun, said: Said, error: unknown): Promise<Outcome> {
  const statement = (): string => statements.fail(run, said.code, said.message, said.retry, said.isForGood, session.clock);
  if (state.hooks.onDead !== undefined) {
    const outcome = await withHook(state, session, run, statement(), error);
    if (outcome !== undefined) return outcome;
  }
  return outcomeOf(await session.own(`${statement()}; ${statements.statuses([run])}`));
}

const outcomeOf = ([row]: Record<string, unknown>[]): Outcome => (row === undefined ? 'FAILED' : (row['status'] as Outcome));

/** The same with the hook `onDead` in one transaction, where this failure is the last; undefined where the hook has failed. */
async function withHook(state: State, session: Session, run: AnyRun, statement: string, error: unknown): Promise<Outcome | undefined> {
  let isHooks = false;
  try {
    await session.begin();
    const rows = (await session.within(statement, statements.statuses([run])))[1]!;
    if (rows[0]?.['status'] === 'FAILED' && rows[0]['is_final']) {
      isHooks = true;
      run.open(session.db, session.pid);
      await state.hooks.onDead!(run, error);
      isHooks = false;
      session.isUsed ||= run.usedDb;
      await session.within();
    }
    await session.commit();
    return outcomeOf(rows);
  } catch (raised) {
    await session.rollback();
    if (!isHooks || isConflict(raised)) throw raised;
    state.fail(raised);
    return undefined;
  } finally {
    session.isUsed ||= run.usedDb;
    run.open(undefined);
  }
}
