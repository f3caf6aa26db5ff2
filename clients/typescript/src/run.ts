// The argument of a handler.
import type { Client, QueryResultRow } from 'pg';
import { checkTime, Stopped } from './errors.js';
import { readJson, writeObject, type JsonMode } from './json.js';

export type StopReason = 'cancel' | 'lost' | 'shutdown';

/** How a run reaches what it is part of. */
export interface Behind {
  /** Stores progress, and returns what a heartbeat answers. */
  progress(run: AnyRun, json: string): Promise<string>;
  /** Does that in a transaction that ends the run; undefined in mode `run`. */
  finishing?: ((work: (db: Client) => Promise<unknown>) => Promise<unknown>) | undefined;
}

/** One attempt at an execution. */
export class Run<Payload = Record<string, unknown>> {
  /** The payload, as `json` and the job's `parse` have made it. */
  payload!: Payload;
  /** Why it is to stop, where it is. */
  stopReason: StopReason | undefined;
  /** @internal */ stoppedAt = 0;
  /** When its lease is to be extended, by a clock that nobody sets. @internal */
  beatAt: number;
  /** The server's process, while a transaction of the handler is there. @internal */
  pid: number | undefined;
  /** The cancel of its statement that is under way. @internal */
  interrupting: Promise<unknown> | undefined;
  /** @internal */ behind: Behind | undefined;
  readonly executionId: string;
  readonly leaseToken: string;
  /** Of how many this is which; 1 is the first. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly jobName: string;
  readonly scopeKind: string;
  readonly scopeId: string;
  readonly #planMs: number;
  readonly leaseMs: number;
  /** The payload's JSON as it is in the ledger. */
  readonly payloadText: string;
  /** Whether somebody has had the connection, and may have left something in its session. @internal */
  usedDb = false;
  #db: Client | undefined;
  #until: number | Date | undefined;
  #abort: AbortController | undefined; // made for who asks: most runs do not

  /** @internal */
  constructor(row: QueryResultRow) {
    this.executionId = row['execution_id'];
    this.leaseToken = row['lease_token'];
    this.attempt = row['attempt'];
    this.maxAttempts = row['max_attempts'];
    this.jobName = row['job_name'];
    this.scopeKind = row['scope_kind'];
    this.scopeId = row['scope_id'];
    this.#planMs = row['plan_ms'];
    this.payloadText = row['payload'];
    this.leaseMs = row['lease_ms'];
    this.beatAt = performance.now() + this.leaseMs / 3;
  }

  /** The plan time that the execution is named by. */
  get planTime(): Date {
    return new Date(this.#planMs);
  }

  /**
   * The connection, in the transaction in which the run succeeds.
   *
   * @throws Error where it is closed: in mode `finish` but in `finishing` and `onDead`, and when the run has ended.
   */
  get db(): Client {
    if (this.#db !== undefined) {
      this.usedDb = true;
      return this.#db;
    }
    throw new Error(this.behind?.finishing === undefined ? 'run.db is closed: the run has ended, or not begun' : 'run.db is closed while a handler runs with transaction: "finish"; run.finishing opens it');
  }

  /** @internal */
  open(db: Client | undefined, pid?: number): void {
    this.#db = db;
    this.pid = pid;
  }

  /**
   * In mode `finish`: opens a transaction, does `work` in it, and commits it together with the run's success. Once in each run, at its end.
   * The value that `work` returns is the result in the ledger, and of this call. A conflict does `work` again.
   *
   * @throws the exception of `work`: then nothing is committed. Stopped, where the run is to stop. Error, in mode `run` or the second time.
   */
  async finishing<T>(work: (db: Client) => Promise<T>): Promise<T> {
    if (this.behind?.finishing === undefined) throw new Error('run.finishing is for transaction: "finish"; in mode "run", run.db is open');
    return (await this.behind.finishing(work)) as T;
  }

  /**
   * Has the execution wait until then, when the handler has returned: what it has written commits with the snooze, and the attempt does not count.
   * `throw new Snooze(…)` does the same at once.
   *
   * @param until - A number of seconds from now, by the database's clock, or an instant.
   * @throws RangeError where that is no time.
   */
  snooze(until: number | Date): void {
    checkTime(until);
    this.#until = until;
  }

  /** Until when it is put off. @internal */
  get until(): number | Date | undefined {
    return this.#until;
  }

  /** Takes back what an attempt at the transaction has said. @internal */
  again(): void {
    this.#until = undefined;
  }

  /**
   * Stores progress in the ledger, where others see it at once, and extends the lease. It does not go through the run's transaction.
   *
   * @param value - A JSON object.
   * @throws TypeError where it is none. Stopped, where the run is to stop.
   */
  async progress(value: object): Promise<void> {
    const json = writeObject(value, 'progress');
    if (this.behind === undefined) throw new Error('the run has ended, or not begun');
    const answer = await this.behind.progress(this, json);
    if (answer !== 'ok') this.stop(answer as StopReason);
    this.check();
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

  /** @internal */
  stop(reason: StopReason): void {
    if (this.stopReason === undefined) this.stoppedAt = performance.now();
    this.stopReason ??= reason;
    this.#abort?.abort(new Stopped(this.stopReason));
  }

  /** @internal */
  read(mode: JsonMode, parse: (payload: unknown) => unknown): void {
    this.payload = parse(readJson(this.payloadText, mode)) as Payload;
  }
}

export type AnyRun = Run<any>;
