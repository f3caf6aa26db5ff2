// The transaction that ends runs: what is done in it, and the finish or snooze, are one commit.
import type { QueryResultRow } from 'pg';
import { Snooze, Stopped } from './errors.js';
import { writeJson } from './json.js';
import { isAborted, isConflict, isLeaseLost, type Session } from './session.js';
import { jittered, rest, type Outcome, type State } from './state.js';
import * as statements from './statements.js';
import type { AnyRun } from './run.js';

/** Another connection of the worker, on which others' transactions are seen as others see them. */
export interface Outside {
  ask(statement: string): Promise<QueryResultRow[]>;
}

/** The ends of runs by one transaction. */
export interface Ended {
  outcomes: Map<AnyRun, Outcome>;
  /** The rows that were claimed in it. */
  next: QueryResultRow[];
}

/** The connection broke. Whether a COMMIT that was sent has been done nobody knows. */
export class Broken extends Error {
  /** @param hasBegun - Whether the body was called. */
  constructor(cause: unknown, readonly hasBegun: boolean) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}
/** A conflict that was the library's statement's, or the commit's. */
class Conflict extends Error {}

/** The same statement again while it meets conflicts, until it is of no use any more. */
export async function repeated<T>(ask: () => Promise<T>, isOver: () => boolean): Promise<T> {
  for (let pause = 5; ; pause = Math.min(pause * 2, 1000)) {
    try {
      return await ask();
    } catch (error) {
      if (!isConflict(error) || isOver()) throw error;
    }
    await rest(jittered(pause));
  }
}

/**
 * Does `body` in a transaction in which these runs end: with what it returns as the result, or by a snooze. A conflict when it ends does it again.
 *
 * @param outside - Undefined where nobody else sees the runs.
 * @param claim - A statement that claims what comes next, in the same transaction.
 * @throws the exception of `body`, and Stopped: then it was rolled back. Broken where the connection is of no use any more.
 */
export async function transaction(
  session: Session, group: AnyRun[], body: () => Promise<unknown>, outside: Outside | undefined, claim?: () => string | undefined,
): Promise<Ended> {
  for (let pause = 5; ; pause = Math.min(pause * 2, 1000)) {
    let hasBegun = false;
    try {
      await session.begin();
      hasBegun = true;
      const returned = await done(session, group, body);
      return await finished(session, group, returned, outside, claim?.());
    } catch (error) {
      try {
        await session.rollback();
      } catch {
        throw new Broken(error, hasBegun);
      }
      if (isAborted(error) && group.every((run) => run.until !== undefined)) return putOff(session, group);
      for (const run of group) if (error instanceof Conflict) run.check();
      if (!(error instanceof Conflict)) throw error;
    }
    for (const run of group) run.again();
    await rest(jittered(pause));
  }
}

/** The same snoozes where the handler's transaction has failed, and there is nothing to commit with them. */
async function putOff(session: Session, group: AnyRun[]): Promise<Ended> {
  for (const run of group) await repeated(() => session.own(statements.snooze(run, run.until!, session.clock)), () => run.stopReason === 'lost');
  return { outcomes: new Map(group.map((run) => [run, 'PENDING'])), next: [] };
}

/** The value of the body; where it throws a snooze, each run is to be put off. */
async function done(session: Session, group: AnyRun[], body: () => Promise<unknown>): Promise<unknown> {
  let returned: unknown;
  try {
    for (const run of group) {
      run.check();
      run.open(session.db, session.pid);
    }
    returned = await body();
  } catch (error) {
    if (!(error instanceof Snooze)) throw error;
    for (const run of group) run.snooze(error.until);
  } finally {
    session.isUsed ||= group.some((run) => run.usedDb);
    for (const run of group) run.open(undefined);
    // A cancel that comes late would hit another run.
    for (const run of group) if (run.interrupting !== undefined) await run.interrupting;
  }
  for (const run of group) run.check();
  return returned;
}

async function finished(session: Session, group: AnyRun[], returned: unknown, outside: Outside | undefined, claim: string | undefined): Promise<Ended> {
  const later = group.filter((run) => run.until !== undefined);
  const now = group.filter((run) => run.until === undefined);
  const asked = later.map((run) => statements.snooze(run, run.until!, session.clock));
  const result = now.length === 1 && group.length === 1 && typeof returned === 'object' && returned !== null ? writeJson(returned) : undefined;
  if (now.length > 0) asked.push(result === undefined ? statements.finishMany(now) : statements.finish(now[0]!, result));
  if (claim !== undefined) asked.push(claim);
  try {
    // A transaction that no handler has had holds nothing but this.
    const isOurs = outside !== undefined && group.length === 1 && !group[0]!.usedDb;
    const rows = isOurs ? await session.ended(...asked) : await session.within(...asked);
    const ids = new Set((now.length > 0 ? rows[later.length]! : []).map((row) => row['id']));
    const own = now.filter((run) => ids.has(run.executionId));
    const outcomes = new Map<AnyRun, Outcome>(group.map((run) => [run, run.until === undefined ? 'SUCCESS' : 'PENDING']));
    if (isOurs && own.length > 0) {
      group[0]!.stop('lost');
      outcomes.set(group[0]!, 'LOST');
    } else if (!isOurs) {
      if (own.length > 0) await endedByHandler(session, own, outcomes, outside);
      await session.commit();
    }
    return { outcomes, next: claim === undefined ? [] : rows[rows.length - 1]! };
  } catch (error) {
    if (isConflict(error)) throw new Conflict('a conflict', { cause: error });
    if (isLeaseLost(error)) for (const run of group) run.stop('lost');
    throw error;
  }
}

/** Where nobody else sees that their leases are gone, the handler has ended the runs itself, in this transaction. */
async function endedByHandler(session: Session, own: AnyRun[], outcomes: Map<AnyRun, Outcome>, outside: Outside | undefined): Promise<void> {
  if (outside !== undefined) {
    const answers = await outside.ask(statements.heartbeat(own));
    for (const [place, run] of own.entries()) if (answers[place]!['answer'] === 'lost') run.stop('lost');
    if (own.some((run) => run.stopReason === 'lost')) throw new Stopped('lost');
  }
  const rows = await session.statement(statements.statuses(own));
  for (const run of own) {
    const row = rows.find(({ id }) => id === run.executionId);
    // A snooze takes the attempt back.
    outcomes.set(run, row === undefined || row['attempt'] < run.attempt ? 'PENDING' : row['status']);
  }
}

/** Tells of each. */
export async function told(state: State, { outcomes }: Ended): Promise<void> {
  for (const [run, outcome] of outcomes) await state.end(run, outcome, ['SUCCESS', 'PENDING', 'LOST'].includes(outcome) ? undefined : new Error('its handler has ended it'));
}
