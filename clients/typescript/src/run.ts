// What a handler gets, what it may throw, and what the ledger is told of it.
import type { Client, QueryResultRow } from 'pg';

/** Thrown by a handler: the attempt has failed; the next is `afterMs` from now (undefined: as the job's backoff says). */
export class Retry extends Error {
  constructor(readonly afterMs?: number, message = 'to be tried again') {
    super(message);
  }
}

/** Thrown by a handler: the execution has failed for good, whatever attempts are left. */
export class Discard extends Error {}

/** Thrown in a handler that was asked to stop: somebody has cancelled the run, the worker ends, or the lease is lost. */
export class Stopped extends Error {}

export type StopReason = 'cancel' | 'lost' | 'shutdown';

/** One attempt at an execution. */
export class Run<Payload = Record<string, unknown>> {
  /** In the transaction that the run's success commits in. */
  db!: Client;
  payload!: Payload;
  stopReason: StopReason | undefined;
  stoppedAt = 0;
  /** When its lease is to be extended, by a clock that nobody sets. */
  beatAt: number;
  /** The process of the connection, while the handler has it. */
  pid: number | undefined;
  /** The cancel of its statement that is under way. */
  interrupting: Promise<unknown> | undefined;
  readonly executionId: string;
  readonly leaseToken: string;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly jobName: string;
  readonly scopeKind: string;
  readonly scopeId: string;
  readonly #planMs: number;
  readonly leaseMs: number;
  /** The payload as it is in the ledger. */
  readonly json: Record<string, unknown>;
  #abort: AbortController | undefined; // made for who asks: most runs do not

  constructor(row: QueryResultRow) {
    this.executionId = row['execution_id'];
    this.leaseToken = row['lease_token'];
    this.attempt = row['attempt'];
    this.maxAttempts = row['max_attempts'];
    this.jobName = row['job_name'];
    this.scopeKind = row['scope_kind'];
    this.scopeId = row['scope_id'];
    this.#planMs = row['plan_ms'];
    this.json = row['payload'];
    this.leaseMs = row['lease_ms'];
    this.beatAt = performance.now() + this.leaseMs / 3;
  }

  get planTime(): Date {
    return new Date(this.#planMs);
  }

  /** Fires when the run is to stop: for fetch, timers and the like. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.stopReason !== undefined) this.#abort.abort(new Stopped(this.stopReason));
    return this.#abort.signal;
  }

  /** Throws Stopped where the run is to stop. Long work calls this now and then. */
  check(): void {
    if (this.stopReason !== undefined) throw new Stopped(this.stopReason);
  }

  stop(reason: StopReason): void {
    if (this.stopReason === undefined) this.stoppedAt = performance.now();
    this.stopReason ??= reason;
    this.#abort?.abort(new Stopped(this.stopReason));
  }
}

export type AnyRun = Run<any>;
export type Said = [text: string, values: unknown[]];

const FAIL = `SELECT sched.finish_failure($1, $2, error_code => $3, error_msg => $4,
  next_retry_at => clock_timestamp() + $5::float8 * interval '1 ms', terminal => $6)`;
export const SNOOZE = 'SELECT sched.snooze($1, $2, clock_timestamp())';

/** What the ledger is told of a run that was rolled back; undefined where its lease is lost. */
export function outcome(run: AnyRun, error: unknown, isGivenBack: boolean): Said | undefined {
  const key = [run.executionId, run.leaseToken];
  if (run.stopReason === 'lost') return undefined;
  if (run.stopReason === 'shutdown' || (run.stopReason === undefined && isGivenBack)) return [SNOOZE, key];
  if (run.stopReason !== undefined) return [FAIL, [...key, 'cancelled', run.stopReason, null, false]];
  try {
    if (error instanceof Retry) return [FAIL, [...key, 'retry', text(error.message), error.afterMs ?? null, false]];
    const { code } = Object(error) as { code?: unknown };
    const name = text(typeof code === 'string' ? code : error instanceof Error ? error.constructor.name : '') || 'Error';
    return [FAIL, [...key, name, text(error instanceof Error ? error.message : error), null, error instanceof Discard]];
  } catch {
    return unwritable(run);
  }
}

/** The same where the ledger does not take the error. */
export function unwritable(run: AnyRun): Said {
  return [FAIL, [run.executionId, run.leaseToken, 'handler_error', 'its error cannot be written', null, false]];
}

/** What PostgreSQL takes as a text. */
const text = (what: unknown): string => String(what).replaceAll('\0', '');
