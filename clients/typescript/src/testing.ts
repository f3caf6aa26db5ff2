// For the tests of an application: `import { drain, enqueued } from 'pg-scheduler/testing'`.
import type { ClientBase } from 'pg';
import type { Queryable } from './enqueue.js';
import { checkNames } from './names.js';
import type { Worker } from './worker.js';

export interface DrainOptions {
  /** Whether an exception of a handler is thrown (true). It is recorded in the ledger in either case. */
  raiseErrors?: boolean;
  /** A connection in a transaction: then all is done in that, with a savepoint for each run, and the session stays as it is. */
  connection?: ClientBase;
}

/**
 * Works until nothing is left to claim, also of what handlers enqueue.
 *
 * @returns how many runs have ended in each status (`PENDING`: snoozed).
 * @throws the first exception of a handler, as it was thrown, once nothing is left to claim.
 */
export async function drain(worker: Worker, options: DrainOptions = {}): Promise<Record<string, number>> {
  checkNames(options, ['raiseErrors', 'connection'], 'drain');
  const counts: Record<string, number> = {};
  const raised: unknown[] = [];
  await worker.drainInto((_, outcome, error) => {
    counts[outcome] = (counts[outcome] ?? 0) + 1;
    if (error !== undefined) raised.push(error);
  }, options.connection as never);
  if (raised.length > 0 && options.raiseErrors !== false) throw raised[0];
  return counts;
}

/** An execution that waits. */
export interface Enqueued {
  id: string;
  jobName: string;
  payload: unknown;
  /** PENDING, or FAILED and to be tried again. */
  status: string;
  attempt: number;
  queue: string;
  priority: number;
  scopeKind: string;
  scopeId: string;
  planTime: Date;
  /** Null: at once. */
  runAt: Date | null;
}

/**
 * The executions that wait, the first that was enqueued first.
 *
 * @param options - `job`: only of this job. `payloadContains`: only those whose payload contains this (`@>`).
 */
export async function enqueued(db: Queryable, options: { job?: string; payloadContains?: object } = {}): Promise<Enqueued[]> {
  checkNames(options, ['job', 'payloadContains'], 'enqueued');
  const { job, payloadContains } = options;
  const { rows } = await db.query(
    `SELECT id, job_name AS "jobName", payload, status, attempt, queue, priority, scope_kind AS "scopeKind", scope_id AS "scopeId", plan_time AS "planTime",
       coalesce(next_retry_at, run_at) AS "runAt"
       FROM sched.execution WHERE (status = 'PENDING' OR next_retry_at IS NOT NULL) AND ($1::text IS NULL OR job_name = $1) AND ($2::jsonb IS NULL OR payload @> $2)
      ORDER BY created_at, plan_time, id`,
    [job ?? null, payloadContains === undefined ? null : JSON.stringify(payloadContains)],
  );
  return rows as Enqueued[];
}

/**
 * Moves the database's clock forward, in test mode: what is due then can be drained.
 *
 * @param by - An interval of PostgreSQL (`'3 days'`), or a number of seconds.
 * @returns the clock's new time.
 * @throws the server's error where the database is not in test mode (55000), or where `by` is zero or less (22023).
 */
export async function advance(db: Queryable, by: string | number): Promise<Date> {
  const { rows } = await db.query('SELECT sched.advance($1::interval) AS now', [typeof by === 'number' ? `${by} s` : by]);
  return rows[0]!['now'];
}

/**
 * Deletes executions, history and alerts, in test mode.
 *
 * @param options - `keepDefinitions: false` deletes jobs, schedules and calendars as well.
 * @throws the server's error where the database is not in test mode (55000).
 */
export async function reset(db: Queryable, options: { keepDefinitions?: boolean } = {}): Promise<void> {
  checkNames(options, ['keepDefinitions'], 'reset');
  await db.query('SELECT sched.reset(keep_definitions => $1)', [options.keepDefinitions ?? true]);
}
