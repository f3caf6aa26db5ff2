// Workers for the PostgreSQL extension scheduler: a queue's executions become calls of your functions.
//
//   const worker = new Worker('postgresql:///app', 'reports', { slots: 4 });
//   worker.job('report', async (run) => {
//     await run.db.query('insert into report (day) values ($1)', [run.payload.day]);
//   });
//   await worker.run();
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, escapeIdentifier, type ClientConfig, type QueryResult, type QueryResultRow } from 'pg';
import { outcome, Run, Stopped, type AnyRun, type Said } from './run.js';

export { main } from './main.js';
export { Discard, Retry, Run, Stopped } from './run.js';

const COLUMNS = `execution_id, lease_token, attempt, max_attempts, job_name, scope_kind, scope_id, payload,
  date_part('epoch', plan_time) * 1000 AS plan_ms, date_part('epoch', stale_after - clock_timestamp()) * 1000 AS lease_ms`;
const CLAIM = `SELECT ${COLUMNS} FROM sched.claim($1, max_claims => $2, runner_id => $3)`;
// Ends what succeeded and claims what comes next, in one statement. A row also where nothing is left to claim.
const FINISH_AND_CLAIM = `SELECT ended.lost, next.* FROM (SELECT array_agg(id) AS lost FROM sched.finish_success_many($4, $5) AS id) AS ended
  LEFT JOIN (${CLAIM}) AS next ON true`;
const FINISH_MANY = 'SELECT array_agg(id) AS lost FROM sched.finish_success_many($1, $2) AS id';
const FINISH = 'SELECT sched.finish_success($1, $2, result => $3)';
const HEARTBEAT = 'SELECT answer FROM sched.heartbeat_many($1, $2)';
const LEASE_LOST = '55000';

/** What is asked for each run is prepared once on each connection. */
const ask = (db: Client, name: string, text: string, values: unknown[]): Promise<QueryResult> => db.query({ name: `pg-scheduler ${name}`, text, values });

/** What to do besides the work. An exception in a hook ends the worker. */
export interface Hooks {
  /** Calls the handler: around it, inside the run's transaction. */
  around?(run: AnyRun, call: () => Promise<unknown>): Promise<unknown>;
  /** The run has committed. */
  succeeded?(run: AnyRun): void;
  /** The run was rolled back, and the ledger says so. */
  failed?(run: AnyRun, error: unknown): void;
  /** The run was rolled back; its lease was lost, so the ledger was told nothing. */
  lost?(run: AnyRun): void;
  /** A connection broke; the worker connects again after so long. */
  broken?(error: unknown, pauseMs: number): void;
}

export interface WorkerOptions {
  /** How many runs at a time, each with a connection. */
  slots?: number;
  /** How many executions a slot claims at once. */
  batch?: number;
  /** How often to look for work that no notification told of. */
  pollMs?: number;
  /** How long runs may go on after `stop`; then they are stopped and given back, without an attempt lost. */
  graceMs?: number;
  hooks?: Hooks;
}

export interface EnqueueOptions {
  plan_time?: Date;
  scope_kind?: string;
  scope_id?: string;
  run_at?: Date;
  priority?: number;
  unique_by?: 'plan' | 'scope';
  if_exists?: 'keep' | 'replace' | 'error';
}

interface Handler {
  call: (runs: AnyRun[]) => Promise<unknown>;
  parse: (payload: unknown) => unknown;
  isBatch: boolean;
}

type Queryable = { query(text: string, values: unknown[]): Promise<{ rows: QueryResultRow[] }> };

const OPTIONS = ['plan_time', 'scope_kind', 'scope_id', 'run_at', 'priority', 'unique_by', 'if_exists'] as const;

/** Puts an execution into the job's queue, on the caller's connection and in its transaction; its id. */
export async function enqueue(db: Queryable, jobName: string, payload: object = {}, options: EnqueueOptions = {}): Promise<string> {
  const given = OPTIONS.filter((name) => options[name] !== undefined);
  const named = given.map((name, place) => `, ${name} => $${place + 3}`).join('');
  const values = [jobName, JSON.stringify(payload), ...given.map((name) => options[name])];
  const { rows } = await db.query(`SELECT sched.enqueue($1, $2${named}) AS id`, values);
  return rows[0]!['id'];
}

const jittered = (ms: number): number => ms * (0.5 + Math.random());

/** Claims the executions of a queue and calls the handlers of their jobs. Several servers: the worker finds the primary. */
export class Worker {
  readonly #servers: (string | ClientConfig)[];
  readonly #handlers = new Map<string, Handler>();
  /** The runs that are held, by their lease tokens: an execution may come again before its last run has ended here. */
  readonly #held = new Map<string, AnyRun>();
  readonly #options: Required<Omit<WorkerOptions, 'hooks'>>;
  readonly #hooks: Hooks;
  readonly #stopping = new AbortController();
  #news = new AbortController();

  constructor(servers: string | ClientConfig | (string | ClientConfig)[] = {}, readonly queue = 'default', options: WorkerOptions = {}) {
    const { hooks, ...others } = options;
    this.#servers = Array.isArray(servers) ? servers : [servers];
    this.#hooks = hooks ?? {};
    this.#options = { slots: 1, batch: 1, pollMs: 5000, graceMs: 30_000, ...others };
    if (this.#options.slots < 1 || this.#options.batch < 1) throw new RangeError('slots and batch are at least 1');
  }

  /** Has `handler` called for each execution of a job (`*`: of those without another handler). An object that it returns is the result in the ledger. `parse` makes its payload. */
  job<P = any>(jobName: string, handler: (run: Run<P>) => Promise<unknown>, parse?: (payload: unknown) => P): this {
    return this.#add(jobName, { call: (runs) => handler(runs[0]!), parse: parse ?? ((payload) => payload), isBatch: false });
  }

  /** The same with a list of runs, in one transaction: they succeed or fail together. */
  batch<P = any>(jobName: string, handler: (runs: Run<P>[]) => Promise<unknown>, parse?: (payload: unknown) => P): this {
    return this.#add(jobName, { call: handler, parse: parse ?? ((payload) => payload), isBatch: true });
  }

  #add(jobName: string, handler: Handler): this {
    if (this.#handlers.has(jobName)) throw new Error(`job "${jobName}" has a handler already`);
    this.#handlers.set(jobName, handler);
    return this;
  }

  #handler(jobName: string): Handler | undefined {
    return this.#handlers.get(jobName) ?? this.#handlers.get('*');
  }

  /** Claims nothing more. Runs go on for `graceMs`. */
  stop(): void {
    this.#stopping.abort();
    this.#news.abort();
  }

  /** Works until `stop`, SIGTERM or SIGINT. */
  async run(): Promise<void> {
    const stop = (): void => this.stop();
    process.once('SIGTERM', stop).once('SIGINT', stop);
    const over = new AbortController();
    const helpers = [this.#forever((db) => this.#listen(db, over.signal), over.signal), this.#forever((db) => this.#beat(db, over.signal), over.signal)];
    const slots = Promise.all(Array.from({ length: this.#options.slots }, () => this.#forever((db) => this.#slot(db), this.#stopping.signal)));
    await new Promise<void>((stopped) => this.#stopping.signal.addEventListener('abort', () => stopped(), { once: true }));
    const patience = (ms: number): Promise<unknown> => Promise.race([slots, sleep(ms, undefined, { ref: false })]);
    await patience(this.#options.graceMs);
    for (const run of this.#held.values()) await this.#stopRun(run, 'shutdown');
    await patience(5000);
    over.abort();
    this.#news.abort();
    await Promise.all(helpers);
    process.removeListener('SIGTERM', stop).removeListener('SIGINT', stop);
  }

  /** Works until nothing is left to claim; how many runs have ended. For tests: what failed waits for its next attempt. */
  async drain(): Promise<number> {
    let count = 0;
    const over = new AbortController();
    const beats = this.#forever((db) => this.#beat(db, over.signal), over.signal);
    const db = await this.#open();
    try {
      for (let runs = await this.#claim(db); runs.length > 0 && !this.#stopping.signal.aborted; ) {
        count += runs.length;
        const next = await this.#work(db, runs);
        runs = next.length > 0 ? next : await this.#claim(db);
      }
    } finally {
      over.abort();
      await db.end();
      await beats;
    }
    return count;
  }

  async #open(): Promise<Client> {
    let failure: unknown = new Error('there is no server to connect to');
    for (const server of this.#servers) {
      const db = new Client(typeof server === 'string' ? { connectionString: server } : server);
      db.on('error', () => {}); // told by the next statement
      try {
        await db.connect();
        const { rows } = await db.query('SHOW transaction_read_only');
        if (rows[0].transaction_read_only === 'off') return db;
        failure = new Error('no server takes writes');
      } catch (error) {
        failure = error;
      }
      await db.end().catch(() => {});
    }
    throw failure;
  }

  /** Does its part on a connection, and on another one where that breaks: after a failover to the new primary. */
  async #forever(part: (db: Client) => Promise<void>, over: AbortSignal): Promise<void> {
    for (let pause = 100; !over.aborted; ) {
      let db: Client | undefined;
      try {
        db = await this.#open();
        pause = 100;
        await part(db);
      } catch (error) {
        pause = Math.min(pause * 2, 10_000);
        this.#hooks.broken?.(error, pause);
        await sleep(jittered(pause), undefined, { signal: over }).catch(() => {});
      } finally {
        await db?.end().catch(() => {});
      }
    }
  }

  #tell(): void {
    this.#news.abort();
  }

  async #listen(db: Client, over: AbortSignal): Promise<void> {
    const gone = new Promise<never>((_, reject) => db.once('end', () => reject(new Error('the connection has ended'))));
    gone.catch(() => {});
    db.on('notification', ({ payload }) => {
      for (const run of this.#held.values()) if (run.executionId === payload) void this.#stopRun(run, 'cancel');
      this.#tell();
    });
    for (const channel of [`sched:${this.queue}`, 'sched:cancel']) await db.query(`LISTEN ${escapeIdentifier(channel)}`);
    this.#tell(); // what came before we listened
    await Promise.race([gone, new Promise<void>((ended) => over.addEventListener('abort', () => ended(), { once: true }))]);
  }

  /** One statement extends all leases, three times in the shortest of them. */
  async #beat(db: Client, over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const pause = Math.min(1000, ...[...this.#held.values()].map((run) => run.leaseMs / 3));
      await sleep(pause, undefined, { signal: over }).catch(() => {});
      const held = [...this.#held.values()];
      if (over.aborted || held.every((run) => run.beatAt > Date.now())) continue;
      for (const run of held) run.beatAt = Date.now() + run.leaseMs / 3;
      const { rows } = await ask(db, 'heartbeat', HEARTBEAT, [held.map((run) => run.executionId), held.map((run) => run.leaseToken)]);
      for (const [place, { answer }] of rows.entries()) if (answer !== 'ok') await this.#stopRun(held[place]!, answer, db);
    }
  }

  /** Has a run stop, and ends the statement that it waits for. */
  async #stopRun(run: AnyRun, reason: 'cancel' | 'lost' | 'shutdown', asking?: Client): Promise<void> {
    run.stop(reason);
    if (run.pid === undefined) return;
    const db = asking ?? (await this.#open().catch(() => undefined));
    if (run.pid !== undefined) await (run.interrupting = db?.query('SELECT pg_cancel_backend($1)', [run.pid]).catch(() => {}));
    if (db !== asking) await db?.end().catch(() => {});
  }

  async #slot(db: Client): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      if (this.#news.signal.aborted) this.#news = new AbortController();
      const news = this.#news.signal;
      for (let runs = await this.#claim(db); runs.length > 0; ) runs = await this.#work(db, runs);
      if (!this.#stopping.signal.aborted) await sleep(jittered(this.#options.pollMs), undefined, { signal: news }).catch(() => {});
    }
  }

  get #claimed(): unknown[] {
    return [this.queue, this.#options.batch, `${hostname()}/${process.pid}`];
  }

  async #claim(db: Client): Promise<AnyRun[]> {
    return this.#take((await ask(db, 'claim', CLAIM, this.#claimed)).rows);
  }

  #take(rows: QueryResultRow[]): AnyRun[] {
    const runs = rows.map((row) => new Run<any>(row));
    for (const run of runs) this.#held.set(run.leaseToken, run);
    return runs;
  }

  /** Does these runs; what was claimed with the end of the last. */
  async #work(db: Client, runs: AnyRun[]): Promise<AnyRun[]> {
    const groups = new Map<string, AnyRun[]>();
    for (const run of runs) {
      const group = this.#handler(run.jobName)?.isBatch ? run.jobName : run.executionId;
      const others = groups.get(group);
      if (others === undefined) groups.set(group, [run]);
      else others.push(run);
    }
    let next: AnyRun[] = [];
    let left = groups.size;
    try {
      for (const group of groups.values()) {
        left -= 1;
        try {
          const isStopping = this.#stopping.signal.aborted;
          if (isStopping) {
            await this.#report(db, group, new Stopped('the worker ends'));
            continue;
          }
          next = this.#take(await this.#together(db, group, left === 0));
        } catch (error) {
          await db.query('ROLLBACK'); // throws where the connection is gone: the leases run out
          await this.#report(db, group, error);
          continue;
        }
        for (const run of group) this.#hooks.succeeded?.(run);
      }
    } finally {
      for (const run of runs) this.#held.delete(run.leaseToken);
    }
    return next;
  }

  /** Calls the handler of these runs and ends them, in one transaction; what was claimed in it. */
  async #together(db: Client, group: AnyRun[], claims: boolean): Promise<QueryResultRow[]> {
    await db.query('BEGIN');
    const handler = this.#handler(group[0]!.jobName);
    if (handler === undefined) {
      const known = [...this.#handlers.keys()].sort().join(', ') || 'none';
      throw new Error(`no handler for job "${group[0]!.jobName}" (this worker has: ${known})`);
    }
    const call = (): Promise<unknown> => handler.call(group);
    let returned: unknown;
    try {
      for (const run of group) {
        run.check();
        run.payload = handler.parse(run.json);
        run.db = db;
        run.pid = (db as unknown as { processID: number }).processID;
      }
      returned = await (this.#hooks.around?.(group[0]!, call) ?? call());
    } finally {
      for (const run of group) run.pid = undefined;
      // A cancel that comes late would hit another run.
      for (const run of group) if (run.interrupting !== undefined) await run.interrupting;
    }
    for (const run of group) run.check();
    const rows = await this.#finish(db, group, returned, claims && !this.#stopping.signal.aborted);
    await db.query('COMMIT');
    return rows;
  }

  /** Ends the runs and claims the next, for the commit of what they wrote. */
  async #finish(db: Client, group: AnyRun[], returned: unknown, claims: boolean): Promise<QueryResultRow[]> {
    const keys = [group.map((run) => run.executionId), group.map((run) => run.leaseToken)];
    let rows: QueryResultRow[];
    if (typeof returned === 'object' && returned !== null && group.length === 1) {
      try {
        await ask(db, 'finish', FINISH, [group[0]!.executionId, group[0]!.leaseToken, JSON.stringify(returned)]);
      } catch (error) {
        if ((error as { code?: string }).code === LEASE_LOST) group[0]!.stop('lost');
        throw error;
      }
      return claims ? (await ask(db, 'claim', CLAIM, this.#claimed)).rows : [];
    }
    if (claims) ({ rows } = await ask(db, 'next', FINISH_AND_CLAIM, [...this.#claimed, ...keys]));
    else ({ rows } = await ask(db, 'finish many', FINISH_MANY, keys));
    const lost: string[] = rows[0]!['lost'] ?? [];
    for (const run of group) if (lost.includes(run.executionId)) run.stop('lost');
    if (lost.length > 0) throw new Stopped('lost');
    return claims ? rows.filter((row) => row['execution_id'] !== null) : [];
  }

  /** Tells the ledger what became of runs whose transaction was rolled back. */
  async #report(db: Client, group: AnyRun[], error: unknown): Promise<void> {
    for (const run of group) {
      let said: Said | undefined = outcome(run, error);
      for (let again = true; said !== undefined && again; ) {
        again = false;
        try {
          await db.query(...said);
        } catch (refused) {
          const { code } = refused as { code?: string };
          if (code === LEASE_LOST) said = undefined;
          else if (code === '57014') again = true; // a cancel that came late
          else throw refused;
        }
      }
      if (said === undefined) this.#hooks.lost?.(run);
      else this.#hooks.failed?.(run, error);
    }
  }
}
