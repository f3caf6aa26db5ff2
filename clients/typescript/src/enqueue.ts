// The calls of an application, on a connection of its own and in its transaction.
import { writeObject } from './json.js';
import { checkNames } from './names.js';

/** A Client, a Pool, or what else has their `query`. */
export interface Queryable {
  query(text: string, values: unknown[]): Promise<{ rows: Record<string, any>[] }>;
}

/** Values that become text; an integer `number` is safe. */
export type Scalar = string | number | bigint | boolean;

/** Options of {@link enqueue}; each is the argument of `sched.enqueue` of the same name. */
export interface EnqueueOptions {
  /** The name of the execution and its place in the queue; no delay. */
  planTime?: Date | undefined;
  scopeKind?: Scalar | undefined;
  scopeId?: Scalar | undefined;
  /** The execution cannot be claimed before. */
  runAt?: Date | undefined;
  priority?: number | undefined;
  /** The sameness of executions: one of this job, scope and plan time (`plan`), or one of this job and scope that waits (`scope`). */
  uniqueBy?: 'plan' | 'scope' | undefined;
  /** The fate of an execution that is the same: it stays, its payload is replaced, or it is an error (23505). */
  ifExists?: 'keep' | 'replace' | 'error' | undefined;
}

/** Options of {@link enqueueMany}; those in the plural pair with the payloads by position. */
export interface EnqueueManyOptions extends Omit<EnqueueOptions, 'planTime' | 'scopeId' | 'runAt'> {
  planTimes?: Date[] | undefined;
  scopeIds?: Scalar[] | undefined;
  /** Null means at once. */
  runAts?: (Date | null)[] | undefined;
}

const asText = (name: string, value: unknown): string | null => {
  if (value === null || typeof value === 'string') return value;
  if (typeof value === 'bigint' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'number') throw new TypeError(`${name} is a scalar, not ${Array.isArray(value) ? 'an array' : typeof value === 'object' ? 'an object' : `a ${typeof value}`}`);
  if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) {
    throw new RangeError(`${name} is no safe integer: ${value} (a bigint or a string keeps all digits)`);
  }
  return String(value);
};
const asTime = (name: string, value: unknown): unknown => {
  if (value === null || typeof value === 'string') return value; // PostgreSQL reads it
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) throw new TypeError(`${name} is a Date: ${String(value)} is none`);
  return value;
};
const asIs = (_: string, value: unknown): unknown => value;
const each = (one: (name: string, value: unknown) => unknown) => (name: string, values: unknown): unknown => {
  if (!Array.isArray(values)) throw new TypeError(`${name} is an array`);
  return values.map((value) => one(name, value));
};

type Arguments = Record<string, [argument: string, convert: (name: string, value: unknown) => unknown]>;
const COMMON: Arguments = {
  scopeKind: ['scope_kind', asText], priority: ['priority', asIs], uniqueBy: ['unique_by', asIs], ifExists: ['if_exists', asIs],
};
const ONE: Arguments = { planTime: ['plan_time', asTime], scopeId: ['scope_id', asText], runAt: ['run_at', asTime], ...COMMON };
const MANY: Arguments = { planTimes: ['plan_times', each(asTime)], scopeIds: ['scope_ids', each(asText)], runAts: ['run_ats', each(asTime)], ...COMMON };

/** The arguments in SQL, from the third on, and their values. */
function given(names: Arguments, options: object, what: string): [sql: string, values: unknown[]] {
  checkNames(options, Object.keys(names), what);
  const some = Object.entries(options).filter(([, value]) => value !== undefined);
  const sql = some.map(([name], place) => `, ${names[name]![0]} => $${place + 3}`).join('');
  return [sql, some.map(([name, value]) => names[name]![1](name, value))];
}

/**
 * Puts an execution into the job's queue, on the caller's connection and in its transaction.
 *
 * @param payload - A JSON object. A `bigint` in it keeps all digits.
 * @returns its id.
 * @throws TypeError for a payload that is no JSON object, and for an unknown option. RangeError for an integer that is not safe. Else the server's error.
 */
export async function enqueue(db: Queryable, jobName: string, payload: object = {}, options: EnqueueOptions = {}): Promise<string> {
  const json = writeObject(payload, 'a payload');
  const [named, values] = given(ONE, options, 'enqueue');
  const { rows } = await db.query(`SELECT sched.enqueue($1, $2${named}) AS id`, [jobName, json, ...values]);
  return rows[0]!['id'];
}

/**
 * Puts an execution for each payload into the job's queue, by one statement, on the caller's connection and in its transaction.
 *
 * @returns their ids, in that order.
 * @throws as {@link enqueue}.
 */
export async function enqueueMany(db: Queryable, jobName: string, payloads: object[], options: EnqueueManyOptions = {}): Promise<string[]> {
  if (!Array.isArray(payloads)) throw new TypeError('payloads is an array');
  const json = payloads.map((payload) => writeObject(payload, 'a payload'));
  const [named, values] = given(MANY, options, 'enqueueMany');
  const { rows } = await db.query(`SELECT id FROM sched.enqueue_many($1, $2::jsonb[]${named}) AS id`, [jobName, json, ...values]);
  return rows.map((row) => row['id']);
}

/**
 * Cancels an execution, and waits for no other transaction. One that runs is asked to stop.
 *
 * @returns false where it is unknown or has ended.
 */
export async function cancel(db: Queryable, executionId: string): Promise<boolean> {
  const { rows } = await db.query('SELECT sched.cancel($1) AS cancelled', [executionId]);
  return rows[0]!['cancelled'];
}
