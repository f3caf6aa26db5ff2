// The statements of the library. Each is a text with its values in it.
import { LONGEST } from './errors.js';
import { literal, uuids } from './session.js';
import type { AnyRun } from './run.js';

export const text = literal;

/** Of the runs of a batch, their ids and their tokens, by position. */
const keys = (runs: AnyRun[]): string => `${uuids(runs.map((run) => run.executionId))}, ${uuids(runs.map((run) => run.leaseToken))}`;
const key = (run: AnyRun): string => `${literal(run.executionId)}, ${literal(run.leaseToken)}`;

export const claim = (queue: string, count: number, runner: string, clock: string): string =>
  `SELECT execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, payload::text AS payload,
  date_part('epoch', plan_time) * 1000 AS plan_ms, date_part('epoch', stale_after - ${clock}) * 1000 AS lease_ms
  FROM sched.claim(${literal(queue)}, max_claims => ${literal(count)}::integer, runner_id => ${literal(runner)})`;

/** Ends runs as SUCCESS. A row for each whose lease is not held. */
export const finishMany = (runs: AnyRun[]): string => `SELECT id FROM sched.finish_success_many(${keys(runs)}) AS id`;

/** The same of one with a result. It raises nothing where the handler has ended the run itself. */
export const finish = (run: AnyRun, result: string): string =>
  `WITH held AS MATERIALIZED (SELECT e.id FROM sched.execution e WHERE e.id = ${literal(run.executionId)} AND e.status = 'RUNNING' AND e.lease_token = ${literal(run.leaseToken)}),
  ended AS MATERIALIZED (SELECT sched.finish_success(held.id, ${literal(run.leaseToken)}, result => ${literal(result)}::jsonb) FROM held)
  SELECT ${literal(run.executionId)}::uuid AS id WHERE (SELECT count(*) FROM ended) = 0`;

/** A number is seconds by the server's clock, a Date an instant. */
const time = (when: number | Date, clock: string): string =>
  when instanceof Date ? `to_timestamp(${literal(when.getTime() / 1000)}::float8)` : `${clock} + ${literal(when)}::float8 * interval '1 s'`;

export const snooze = (run: AnyRun, until: number | Date, clock: string): string => `SELECT sched.snooze(${key(run)}, ${time(until, clock)})`;

export const fail = (run: AnyRun, code: string, message: string, retry: number | Date | undefined, isForGood: boolean, clock: string): string =>
  `SELECT sched.finish_failure(${key(run)}, error_code => ${literal(code)}, error_msg => ${literal(message.slice(0, LONGEST))},
  next_retry_at => ${retry === undefined ? 'NULL' : time(retry, clock)}, terminal => ${isForGood})`;

export const heartbeat = (runs: AnyRun[]): string => `SELECT answer FROM sched.heartbeat_many(${keys(runs)})`;

export const progress = (run: AnyRun, json: string): string => `SELECT sched.heartbeat(${key(run)}, progress => ${literal(json)}::jsonb) AS answer`;

/** Before what is not to wait for long for a transaction of the handler that has locked the lease. */
export const IMPATIENT = "SET LOCAL lock_timeout = '2s'; ";

/** The present state of runs. */
export const statuses = (runs: AnyRun[]): string =>
  `SELECT id, status, attempt, lease_token, next_retry_at IS NULL AS is_final FROM sched.execution WHERE id = ANY (${uuids(runs.map((run) => run.executionId))})`;

export const cancel = (pid: number): string => `SELECT pg_cancel_backend(${literal(pid)}::integer)`;
